// Questions that were asked in this browser, newest first. They leave it only as new questions.
const KEY = "foldex.questions";
const KEPT = 8;

export function recentQuestions() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((each) => typeof each === "string").slice(0, KEPT) : [];
  } catch {
    return [];
  }
}

export function keepQuestion(question) {
  if (!question || question.length > 200) return;
  localStorage.setItem(KEY, JSON.stringify([question, ...recentQuestions().filter((each) => each !== question)].slice(0, KEPT)));
}

export function forgetQuestions() {
  localStorage.removeItem(KEY);
  return [];
}

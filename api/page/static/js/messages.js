// What the page says of an error, in its own words: programs read the service's `detail`, which names settings and calls.
const MESSAGES = {
  unauthorized: "The key is missing or invalid; enter one that “foldex keys create” made.",
  auth_required: "This page is for the machine on which Foldex runs; open it there by 127.0.0.1 or localhost.",
  source_refused: "Foldex has not been allowed to read this folder, or cannot open it; choose another one.",
  session_needed: "Only a page that was opened by the link of “foldex open” may add this folder.",
  link_used: "The link was used before; “foldex open” prints a new one.",
  database_unavailable: "The database does not answer; try again in a moment.",
  internal: "Something went wrong; try again, and look into the logs if it stays.",
  estimate_busy: "Other folders are being looked at; the estimate follows.",
  no_tree: "This folder has no tree of summaries yet; build one, and wait until it is complete.",
  too_large: "This is larger than Foldex accepts; choose smaller files, or fewer of them.",
};

// One sentence for people. A detail of the service loses its marks for code.
export const sentenceOf = (problem) => MESSAGES[problem.code] ?? (problem.detail ?? String(problem)).replaceAll("`", "");

// Marks words in text from files. Text stays text: it is cut into pieces, and some of them stand in <mark>.
import { html } from "../../vendor/preact-htm.js";

const TOO_SHORT = 2;
const MAX_WORDS = 40;
const WORD = /[\p{L}\p{N}_]+(?:['’]\p{L}+)?/gu;
// Words that say nothing of what is looked for.
const STOP = new Set(
  `a about all also am an and any are as at be because been but by can could did do does for from get had has have he her here
  him his how i if in into is it its just long me more most much my no not of on one only or our out over own same she should so
  some such than that the their them then there these they this those to too up us very was we were what when where which while
  who whom why will with would you your aber als am an auch auf aus bei bin bis das dass dem den der des die doch du durch ein eine
  einem einen einer es für hat ich ihr im ist ja kann man mit nach nicht noch nur oder sein sich sie sind so über um und uns vom von
  vor war was wenn wer wie wir wird wo zu zum zur au aux avec ce ces comme dans de des du elle en est et il ils je la le les leur mais
  ne nous on ou où par pas plus pour que qui sa se ses son sont sur un une vous del el ella en es esta la las lo los más o para por
  que se sin su sus un una y al con como che di da della dei e gli il in la le non per più si sono una uno het een van voor met niet`.split(/\s+/),
);

// Words of one stem: "steeped" finds "steep", and "token" finds "tokens".
const stem = (word) => word.toLowerCase().replace(/['’]\p{L}+$/u, "").replace(/(?<=\p{L}{3})(?:ing|ed|es|s|e)$/u, "");
// The parts of an identifier.
const parts = (word) => word.split(/_|(?<=\p{Ll})(?=\p{Lu})/u).filter(Boolean);

// What finds the words of a query in a text, whole and in either case; null without any that matter. `stems` are theirs.
export function wordsOf(query) {
  const found = (query.match(WORD) ?? []).filter((word) => word.length >= TOO_SHORT && !STOP.has(word.toLowerCase()));
  if (!found.length) return null;
  const stems = new Set(found.slice(0, MAX_WORDS).flatMap((word) => [word, ...parts(word)]).map(stem));
  const isMeant = (word) => [word, ...parts(word)].some((part) => !STOP.has(part.toLowerCase()) && stems.has(stem(part)));
  return {
    stems,
    *[Symbol.matchAll](text) {
      for (const match of text.matchAll(WORD)) if (isMeant(match[0])) yield match;
    },
  };
}

// The stems of the words that are found in a text.
export const foundIn = (text, words) => (words ? new Set([...text.matchAll(words)].map(([word]) => stem(word))) : new Set());

// `text` with what `expression` finds marked.
export function marked(text, expression) {
  if (!expression) return text;
  const pieces = [];
  let end = 0;
  for (const match of text.matchAll(expression)) {
    if (!match[0]) continue;
    pieces.push(text.slice(end, match.index), html`<mark>${match[0]}</mark>`);
    end = match.index + match[0].length;
  }
  return [...pieces, text.slice(end)];
}

// The API counts characters, and JavaScript counts some of them twice: the index in `text` of each character asked for.
export function indexOf(text, characters) {
  if (!/[\u{10000}-\u{10ffff}]/u.test(text)) return characters;
  let index = 0;
  for (let count = 0; count < characters && index < text.length; count += 1) index += text.codePointAt(index) > 0xffff ? 2 : 1;
  return index;
}

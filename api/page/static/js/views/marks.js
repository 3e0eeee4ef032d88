// Marks words in text from files. Text stays text: it is cut into pieces, and some of them stand in <mark>.
import { html } from "../../vendor/preact-htm.js";

const TOO_SHORT = 2;
const MAX_WORDS = 40;

// The words of a query, longest first, as an expression that finds them in either case; null without any.
export function wordsOf(query) {
  const found = query.match(/[\p{L}\p{N}_]+/gu) ?? [];
  const words = [...new Set(found.filter((word) => word.length >= TOO_SHORT).map((word) => word.toLowerCase()))];
  if (!words.length) return null;
  words.sort((one, other) => other.length - one.length);
  return new RegExp(`(?<![\\p{L}\\p{N}])(?:${words.slice(0, MAX_WORDS).join("|")})`, "giu");
}

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

// Syntax colours of code: comments, strings, numbers and keywords. Text stays text, and what is not known stays plain.
import { html } from "../../vendor/preact-htm.js";
import { marked } from "./marks.js";

// A longer text stays plain: a browser would lay out each of its pieces.
const MAX_CHARS = 200_000;
const NUMBER = "\\b\\d[\\w.]*";
const WORD = "[A-Za-z_$@][\\w$]*";
const DOUBLE = '"(?:[^"\\\\\\n]|\\\\.)*"?';
const SINGLE = "'(?:[^'\\\\\\n]|\\\\.)*'?";
const set = (words) => new Set(words.split(" "));

// What each family of languages calls a comment, a string and a keyword.
const family = (comment, string, keywords, flags = "") => ({
  pattern: new RegExp(`(?<comment>${comment})|(?<string>${string})|(?<number>${NUMBER})|(?<word>${WORD})`, `g${flags}`),
  keywords: set(keywords),
  isCased: !flags.includes("i"),
});
const BLOCK = "\\/\\*[\\s\\S]*?(?:\\*\\/|$)";
const SLASHES = `\\/\\/[^\\n]*|${BLOCK}`;
const CURLY = `abstract as async await base bool boolean break byte case catch char class const constexpr continue debugger default defer delete do
  double else enum event explicit export extends extern false final finally float fn for foreach from func function get go goto if impl
  implements import in inline instanceof int interface internal is let long loop match mod module mut namespace native new nil null
  nullptr object of operator out override package private protected pub public readonly ref return sealed self set short signed sizeof
  static struct super switch template this throw throws trait true try type typedef typeof typename undefined union unsafe unsigned use
  using val var virtual void volatile when where while with yield`.replace(/\s+/g, " ");
const PYTHON = `False None True and as assert async await break case class continue def del elif else except finally for from global if
  import in is lambda match nonlocal not or pass raise return self try while with yield`.replace(/\s+/g, " ");
const SCRIPTS = `BEGIN END alias begin break case class def do done elif else elsif end ensure esac exit export false fi for function if in
  include local module next nil null off on raise redo require rescue retry return self then true undef unless until when while yield yes
  no`.replace(/\s+/g, " ");
const QUERIES = `add all alter and as asc begin between by case cast check column commit constraint create cross default delete desc distinct
  drop else end exists false foreign from full function group having if in index inner insert into is join key left like limit not null
  on or order outer primary references returning right rollback select set table then true union unique update using values view when
  where with`.replace(/\s+/g, " ");
const FAMILIES = {
  curly: family(SLASHES, `${DOUBLE}|${SINGLE}|\`(?:[^\`\\\\]|\\\\[\\s\\S])*\`?`, CURLY),
  // an apostrophe begins a lifetime, too
  rust: family(SLASHES, `${DOUBLE}|'(?:[^'\\\\\\n]|\\\\[^\\n]{1,9})'`, CURLY),
  python: family("#[^\\n]*", `"""[\\s\\S]*?(?:"""|$)|'''[\\s\\S]*?(?:'''|$)|${DOUBLE}|${SINGLE}`, PYTHON),
  scripts: family("#[^\\n]*", `${DOUBLE}|'[^'\\n]*'`, SCRIPTS),
  sql: family(`--[^\\n]*|${BLOCK}`, `${DOUBLE}|'(?:[^']|'')*'?`, QUERIES, "i"),
  lua: family("--[^\\n]*", `${DOUBLE}|${SINGLE}`, `${SCRIPTS} and not or repeat`),
  data: family("(?!)", DOUBLE, "true false null"),
};
const BY_ENDING = Object.fromEntries(
  Object.entries({
    curly: "js jsx mjs cjs ts tsx mts cts java kt kts go c h cc cpp cxx hh hpp hxx cs swift scala dart php css scss less proto groovy gradle m mm",
    rust: "rs",
    python: "py pyi pyw",
    scripts: "rb sh bash zsh yaml yml toml ini cfg conf properties r pl pm ex exs tcl mk cmake tf",
    sql: "sql",
    lua: "lua hs",
    data: "json jsonl ndjson json5",
  }).flatMap(([name, endings]) => endings.split(" ").map((ending) => [ending, FAMILIES[name]])),
);

// The pieces of each line of a text: [kind, text], of which the kind may be empty. Null if the file's name tells no language.
export function colourLines(text, path) {
  const language = BY_ENDING[/\.(\w+)$/.exec(path)?.[1].toLowerCase()];
  if (!language || text.length > MAX_CHARS) return null;
  const lines = [[]];
  const add = (kind, part) => {
    part.split("\n").forEach((piece, index) => {
      if (index) lines.push([]);
      if (piece) lines.at(-1).push([kind, piece]);
    });
  };
  let end = 0;
  for (const match of text.matchAll(language.pattern)) {
    const { comment, string, number, word } = match.groups;
    const isKeyword = word && language.keywords.has(language.isCased ? word : word.toLowerCase());
    const kind = comment ? "comment" : string ? "string" : number ? "number" : isKeyword ? "keyword" : "";
    if (!kind) continue;
    add("", text.slice(end, match.index));
    add(kind, match[0]);
    end = match.index + match[0].length;
  }
  add("", text.slice(end));
  return lines;
}

// The characters of a line from `from` up to `to`, with their colours and with what `words` finds marked.
export function coloured(line, pieces, words, from = 0, to = line.length) {
  if (!pieces) return marked(line.slice(from, to), words);
  let at = 0;
  return pieces.map(([kind, text]) => {
    const part = text.slice(Math.max(0, from - at), Math.max(0, to - at));
    at += text.length;
    return kind && part ? html`<span class=${`code-${kind}`}>${marked(part, words)}</span>` : marked(part, words);
  });
}

// What the page says of an error, in its own words: programs read the service's `detail`, which names settings and calls.
const MESSAGES = {
  unauthorized: "The key is missing or invalid; enter one that “foldex keys create” made.",
  token_invalid: "The token is no longer valid here; sign in again where it came from.",
  token_unusable: "The token does not say what Foldex needs; ask the operator.",
  issuer_unavailable: "Tokens cannot be checked just now; try again.",
  scope_missing: "Your key does not allow this; ask for one with the scope “write”, or “admin” if yours has that.",
  last_admin_key: "This is the last key that may make others; make another one first.",
  auth_required: "This page is for the machine on which Foldex runs; open it there by 127.0.0.1 or localhost.",
  session_needed: "Only a page that was opened by the link of “foldex open” may add this folder.",
  link_used: "The link was used before; “foldex open” prints a new one.",
  no_such_files: "No indexed file passes the filters; widen them.",
  embedding_model_refused: "The embedding model is missing or unknown, or its dimensions differ; choose another one in the settings.",
  model_not_allowed: "This model is not allowed here; choose another one, or ask the operator to allow it.",
  no_tree: "This folder has no tree of summaries yet; build one, and wait until it is complete.",
  too_large: "This is larger than Foldex accepts; choose smaller files, or fewer of them.",
  conflict: "Something of this name is there already; choose another name.",
  too_many_tools: "No more folders can be added; remove one, or ask the operator to allow more.",
  tool_slow: "No folder answered in time; try again.",
  search_busy: "Too many long answers are in progress; try again, or ask for fewer hits.",
  estimate_busy: "Other folders are being looked at; the estimate follows.",
  embedding_refused: "The provider refuses the texts, or its answer cannot be read; ask the operator to check its address.",
  embedding_unreadable: "The provider's answer cannot be read; ask the operator to check its address.",
  embedding_unauthorized: "The provider refuses the key; ask the operator to set a valid one.",
  rerank_not_configured: "No model for ranking is set; rank without one, or ask the operator to set it.",
  llm_not_configured: "Summaries need a language model; name one in the settings of the tree, such as local/extractive, which needs no key.",
  source_error: "The content of a file is missing; upload it again.",
  source_refused: "Foldex may not read this place, or cannot open it; check its name and its access, or choose another one.",
  source_unavailable: "The place does not answer; try again, or ask the operator to check its address.",
  folder_elsewhere: "This machine has another folder there than the one that was indexed; see the logs for the remedy.",
  contents_elsewhere: "This machine does not have the directory of contents; ask the operator to share it.",
  vectors_elsewhere: "This machine does not have the directory of vectors; ask the operator to share it.",
  store_refused: "The vector store refuses this; ask the operator to look into the logs.",
  store_unauthorized: "The vector store refuses the key; ask the operator to set a valid one.",
  text_key_missing: "The key of the stored words is missing; ask the operator to set it again, or read every file again.",
  locked: "Something else holds this just now; try again in a moment.",
  schema_behind: "Foldex is being upgraded; try again in a moment, or ask the operator to finish it.",
  release_behind: "A newer release wrote this; reload the page once Foldex is upgraded.",
  disk_full: "The disk is full; free some space, or remove folders.",
  too_many_tokens: "The tree would need more tokens than its settings allow; raise them there.",
  database_unavailable: "The database does not answer; try again in a moment.",
  internal: "Something went wrong; try again, and look into the logs if it stays.",
};

// Names of settings, but not parts of paths and of quoted names.
const VARIABLES = /(?<![\w/.'-])[A-Z][A-Z\d]*(?:_[A-Z\d]+)+(?![\w/'-]|\.\w)(?: or [A-Z][A-Z\d]*(?:_[A-Z\d]+)+)*/g;
// A text without marks for code. People who read it do not set variables.
export const plain = (text) => text.replaceAll("`", "").replace(VARIABLES, "the installation's setting");

// One sentence for people. A detail of the service does not tell where its calls are described.
export const sentenceOf = (problem) => MESSAGES[problem.code] ?? plain(problem.detail ?? String(problem)).replace(/ See \/docs for .*$/, "");

// Why a file was not stored, by reason. The service's own words are for those who send uploads by programs.
const REFUSALS = {
  too_large: "It is larger than Foldex takes; split it.",
  too_much: "Too much was sent at once; add it again.",
  too_many: "Too many files were sent at once; add it again.",
  unreadable: "The browser cannot read it; check that it is still there, and choose it again.",
};
export const refusalOf = ({ reason, message }) => REFUSALS[reason] ?? sentenceOf({ detail: message });

// What to do about a file that is not indexed, where the service's remedy names fields.
const REMEDIES = {
  too_large: "Split the file, or ask the operator to allow larger ones.",
  minified: "Index its source, or choose “minified” below “Keep” in the settings.",
  generated: "Index its source, or choose “generated” below “Keep” in the settings.",
  secret: "It holds a private key or a token: remove that, or choose “secrets” below “Keep” in the settings.",
  cost_limit: "The run has paid for all tokens that the settings allow; raise “Max cost tokens” there, then retry.",
  sidecar: "It holds metadata of the file beside it; it is searched once the settings take no metadata from such files.",
};
export const remedyOf = ({ reason, remedy }) => REMEDIES[reason] ?? (remedy && plain(remedy));

// What is waited for. Operators read the names of settings in the view of the workers.
export const warningOf = (text) => (/[A-Z]{3,}_[A-Z]/.test(text) ? `${text.split(": ")[0]}; “Workers” says why.` : sentenceOf({ detail: text }).replace("reindex, or retry,", "update the folder"));

// Where a folder is. Files that were sent here have no other place than an id.
export const placeOf = (tool) => (tool.source.kind === "nodes" ? "stored files" : tool.place);

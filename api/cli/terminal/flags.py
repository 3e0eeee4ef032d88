"""Says what the service says of its fields in the words of the command: by flags, and by verbs instead of calls."""

from __future__ import annotations

import re

#: Fields of `config`, which `--config` sets.
CONFIG = (
    "embedding_model|dimensions|chunk_size|chunk_overlap|granularity|include|exclude|types|use_ignore_files|keep"
    "|containers|min_token_count|max_token_count|max_cost_tokens|auto_reindex|watch|every|url_template|raptor|metadata_from|metadata|rules"
)
#: Fields of requests that have a flag of another name, or a name that is more than a word.
FLAGS = {
    "top_k": "--top-k",
    "head_limit": "--limit",
    "max_per_file": "--max-count",
    "allow_removals": "--allow-removals",
    "renew_text": "--renew-text",
}

_WORDS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r'reindex with \{"full": true\}'), "run `foldex reindex --full`"),
    (re.compile(r'reindex with \{"allow_removals": true\}'), "run `foldex reindex --allow-removals`"),
    (re.compile(rf"(?<![\w./\\-])config\.((?:{CONFIG})\b(?:\.[a-z_]{{1,40}})?)(?![\w/\\])"), r"--config \1"),
    (re.compile(r"GET /api/tools/search/[^\s;,]{1,100}/files\b"), "`foldex files`"),
    (re.compile(r"GET /api/tools/search\b(?!/)"), "`foldex tools`"),
    # `foldex tree build` is named before, and waits
    (re.compile(r", or with POST /api/\S{1,100}/raptor/build, and wait until its indexing_status is indexed"), ""),
    (re.compile(r"send `regex: false` \(by MCP `fixed: true`\), or call `foldex grep` with -F"), "give -F"),
    (re.compile(r"The header Foldex-Principals\b"), "--as"),
    (re.compile(r"See /docs for what this call accepts\."), "See --help."),
)
#: Not a part of a path or of another name.
_FIELD = re.compile(rf"(?<![\w./\\-])(?:{'|'.join(FLAGS)})(?![\w/\\-])")


def in_flags(text: str) -> str:
    """The text with flags for fields, and with verbs for calls."""
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return _FIELD.sub(lambda found: FLAGS[found[0]], text)

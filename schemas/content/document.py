"""Data that flows through an index run: listed entries, file contents, documents, chunks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from schemas.content.metadata import Value
from schemas.reason import Reason

#: Characters of its properties that each chunk of a document is found by: more would outweigh the chunk's own words.
_MAX_WORDS_CHARS = 500
#: Maximum tokens that an empty line in front of an embedded text costs.
SEPARATOR_TOKENS = 2


def extension(name: str) -> str:
    """The part after the last dot of a name, in lower case; empty if there is no dot, or only a leading one."""
    stem, _, suffix = name.rpartition(".")
    return suffix.lower() if stem else ""


def text_hash(text: str) -> str:
    """Content hash of a chunk's text, independent of its origin."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """One descendant of a folder, as its source lists it.

    `key` is the node id, or the bytes of the relative path. `path` is relative to the folder and printable. `stamp`
    changes whenever the content may have changed. `reason` is set if the source itself rules the file out. `type` is
    the type that the source states, if any ("json", "markdown", …). `mtime_ms` is the time of the last change, in
    milliseconds since 1970.
    """

    key: bytes
    path: str
    id_path: str
    node_id: str | None
    size: int
    stamp: str
    reason: Reason | None = None
    type: str | None = None
    mtime_ms: int | None = None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]


#: Keys in byte order: from the first one on, up to the second one and without it.
KeySpan = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class ListingPage:
    """Some entries, and the cursor for the next ones. The cursor is None after the last page.

    `unlisted` are key prefixes below which the listing failed: known files there have not vanished. `ignored` counts
    what rules exclude, by rule name. An excluded directory counts as one, under the rule's name plus `_directories`.
    `slow` is the number of containers that were not opened, as that takes too long. What is not among the `entries` of
    a page, nor of those without `spans` before it, was not there, if its key is in the `spans` of the page. Those of
    all pages have every key. None if a later page has them, or no page, as the source cannot tell.
    """

    entries: list[SourceEntry]
    cursor: str | None
    unlisted: tuple[bytes, ...] = ()
    ignored: Mapping[str, int] = field(default_factory=dict)
    slow: int = 0
    spans: Sequence[KeySpan] | None = None


@dataclass(frozen=True, slots=True)
class FileContent:
    """The bytes of one file and the stamp they were read under; None if the stamp is too recent to be trusted.

    `type` is the type that the source states, if any, and `metadata` what it states besides; None if it states none.
    """

    data: bytes
    stamp: str | None
    type: str | None = None
    metadata: Mapping[str, Value] | None = None


#: Kinds of definitions and of uses of a name, in the order in which parsers prefer them.
Kind = Literal[
    "class",
    "interface",
    "struct",
    "enum",
    "trait",
    "impl",
    "module",
    "type",
    "function",
    "method",
    "property",
    "macro",
    "constant",
    "variable",
]
UseKind = Literal["import", "base", "call", "type"]


# A file has thousands of these two, and creating a frozen dataclass takes several times as long.
class CodeDefinition(NamedTuple):
    """A class, function or other named thing in code. `scope` names the enclosing definitions, outermost first.

    The text from `start_char` to `body_char` is its header (decorators, signature); its whole text ends at `end_char`.
    """

    name: str
    kind: str
    scope: tuple[str, ...]
    start_char: int
    body_char: int
    end_char: int
    start_line: int
    end_line: int
    signature: str


class CodeReference(NamedTuple):
    """A use of a name in code. `scope` names the definitions that enclose the use, outermost first."""

    name: str
    kind: str
    scope: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class DocumentProperties:
    """Properties that a document states, each on one line; empty if it does not. Dates are in ISO 8601."""

    title: str = ""
    author: str = ""
    description: str = ""
    keywords: str = ""
    created: str = ""
    modified: str = ""
    #: What stands above its text, which it does not state.
    opening: str = ""

    @property
    def words(self) -> str:
        """Keywords for all chunks of the document, besides their text: the title first, cut to a maximum."""
        opening = "" if self.opening == self.title else self.opening
        stated = (self.title, opening, self.keywords, self.author, self.created, self.modified, self.description)
        words = "\n".join(filter(None, stated))
        return words if len(words) <= _MAX_WORDS_CHARS else words[:_MAX_WORDS_CHARS].rpartition(" ")[0]


#: The properties of a document that states none.
NO_PROPERTIES = DocumentProperties()


@dataclass(frozen=True, slots=True)
class Document:
    """The text of one file. `type` is shown as `file_type` ("markdown", "json", "text", "code", "pdf", …).

    `markup` is the structure by which the text is chunked. It is "markdown" (headings), "json", "code" (`definitions`),
    "table", "keys" (indented keys or sections in brackets) or "lines". Each chunk of a table repeats `header`.
    `pages` are the character offsets where pages begin. `title` is that of the `properties`, else the first heading.
    `note` tells what the reader could not make out of the file, and what its owner can do; empty if it read all.
    `metadata` is that of the front matter.
    """

    text: str
    type: str
    language: str | None = None
    title: str | None = None
    markup: str = "lines"
    header: str = ""
    pages: tuple[int, ...] = ()
    definitions: tuple[CodeDefinition, ...] = ()
    references: tuple[CodeReference, ...] = ()
    properties: DocumentProperties = NO_PROPERTIES
    note: str = ""
    metadata: Mapping[str, Value] = field(default_factory=dict)


class Chunk(NamedTuple):
    """A piece of a document: `document.text[start_char:end_char] == text`. Lines count from 1, inclusive.

    `stem`, the name of a file of code, and `context` (headings, JSON keys) are embedded in front of the text but never
    shown; `tokens` counts all three. `read` is the text as it is read, without escapes and bytes; None if it is read as
    it is written.
    """

    text: str
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    tokens: int
    context: str = ""
    json_pointer: str | None = None
    title: str | None = None
    symbol: str | None = None
    node_type: str | None = None
    scope: str | None = None
    level: int = 0
    page: int | None = None
    read: str | None = None
    stem: str = ""

    @property
    def embedded_text(self) -> str:
        """The text sent to the model; its hash is the chunk's content hash."""
        text = self.text if self.read is None else self.read
        return "\n\n".join((*filter(None, (self.stem, self.context)), text))

"""What flows through an index run: listed entries, read bytes, documents, chunks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from schemas.status import Reason

#: Extensions of the types that a source may have a word for itself; of every other file its name tells the type.
EXTENSIONS = {"json": "json geojson webmanifest", "markdown": "md markdown mdown mkd mdx"}

_TYPES = {ending: type_ for type_, endings in EXTENSIONS.items() for ending in endings.split()}

#: Types whose text is the file's own, but for its encoding: lines of the one are lines of the other.
AS_WRITTEN = (
    "text",
    "code",
    "markdown",
    "rst",
    "asciidoc",
    "org",
    "tex",
    "json",
    "jsonl",
    "yaml",
    "toml",
    "csv",
    "xml",
)


def told_type(name: str) -> str:
    """The type of a node that is known by its name alone; "file" is whatever the name tells when it is read."""
    return _TYPES.get(extension(name), "file")


def extension(name: str) -> str:
    """What stands behind the last dot of a name, in lower case; nothing where there is no dot, or only the first."""
    stem, _, found = name.rpartition(".")
    return found.lower() if stem else ""


def text_hash(text: str) -> str:
    """What the text of a chunk is known by, wherever it comes from."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One descendant of a folder as its source lists it.

    `key` is the node id, or the relative path's bytes; `path` is relative to the folder and made printable;
    `stamp` changes whenever the content may have; `reason` is set where the source itself rules the file out;
    `type` is the source's own word for the type, where it has one ("json", "markdown", …). `mtime_ms` is the time of
    the last change, in milliseconds since 1970.
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


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries and the cursor that lists the next ones, None after the last.

    `unlisted` are prefixes of keys below which nothing could be listed: what is known there has not vanished. `ignored`
    counts what rules leave out, by the rule's name; a directory counts as one, under that name and `_directories`.
    """

    entries: list[Entry]
    cursor: str | None
    unlisted: tuple[bytes, ...] = ()
    ignored: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of one file and the stamp they were read under, None where it is too young to be trusted.

    `type` is the source's own word for what they are, where it has one.
    """

    data: bytes
    stamp: str | None
    type: str | None = None


#: What a definition is, and how a name is used; in the order that parsers prefer them in.
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


# files have thousands of these two, and a frozen dataclass takes several times as long to make
class Definition(NamedTuple):
    """A class, function or other named thing in code; `scope` names the definitions around it, outermost first.

    The text from `start_char` to `body_char` is its header (decorators, signature), to `end_char` all of it.
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


class Reference(NamedTuple):
    """A name that code uses; `scope` names the definitions it is used in, outermost first."""

    name: str
    kind: str
    scope: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Document:
    """The text of one file. `type` is what `file_type` shows ("markdown", "json", "text", "code", "pdf", …).

    `markup` is how the text is structured and therefore cut: "markdown" (headings), "json", "code" (`definitions`),
    "table" (each chunk repeats `header` for the model), "keys" (indented keys or sections in brackets), "lines".
    `pages` are the characters where pages begin.
    """

    text: str
    type: str
    language: str | None = None
    title: str | None = None
    markup: str = "lines"
    header: str = ""
    pages: tuple[int, ...] = ()
    definitions: tuple[Definition, ...] = ()
    references: tuple[Reference, ...] = ()


class Chunk(NamedTuple):
    """A piece of a document; `document.text[start_char:end_char] == text`, lines count from 1, inclusive.

    `context` (headings, JSON keys) is embedded in front of the text and never shown; `tokens` counts both.
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

    @property
    def embedded_text(self) -> str:
        """What the model is given; its hash is the chunk's content hash."""
        return f"{self.context}\n\n{self.text}" if self.context else self.text

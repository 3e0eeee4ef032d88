"""Turns a document into chunks. Each cut depends only on nearby text, so an edit changes only the chunks around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, compress, repeat
from operator import add, itemgetter, lt

import numpy as np

from schemas.content.document import Chunk, Document
from schemas.content.source import ChunkSettings
from schemas.errors import FileError, NotFound
from schemas.reason import Reason
from worker.chunk import code, json, lines, markdown, table, yaml_toml
from worker.chunk.context import contexts
from worker.chunk.measure import ChunkSpan, Measure, measure, trim, trimmed
from worker.chunk.packed import pack
from worker.machine.memory.gc_pause import without_garbage_collection
from worker.reading import ReadForm
from worker.tokens.byte_tables import Offsets
from worker.tokens.tokenizers import Tokenizer, char_offsets

#: Maximum tokens of context in front of a chunk's text, by markup. Table and class headers are longer than headings.
_CONTEXT_TOKENS = {"lines": 0, "markdown": 64, "json": 64, "keys": 64, "table": 256, "code": 128}
#: Markups whose pieces follow the text's structure. The others are already cut by size.
_PACKED = frozenset({"code", "json", "keys", "markdown"})


def chunk(
    document: Document,
    settings: ChunkSettings,
    tokenizer: Tokenizer,
    max_tokens: int,
    pointer: str = "",
    *,
    read: ReadForm | None = None,
) -> list[Chunk]:
    """Cut a document into chunks, ordered by `start_char`; no chunk is only white space.

    No text is longer than `settings.size` in its unit, as it is read. No context and text together exceed `max_tokens`,
    the model's limit. A text below `settings.threshold` stays whole if the model can take it. `pointer` (RFC 6901)
    narrows a JSON document to one value. `read` is the text's read form, if the caller knows it. Raises `NotFound` if
    there is no such value, and `FileError` if the JSON is not well-formed.
    """
    if pointer and document.note:
        raise FileError(Reason.PARSE_FAILED, document.note)
    if pointer and document.markup != "json":
        raise NotFound(f'"{pointer}" is a JSON pointer, but this document is {document.type}; omit json_pointer.')
    limits = measure(
        document.text,
        settings,
        tokenizer,
        max_tokens,
        context_tokens=_CONTEXT_TOKENS[document.markup],
        joint="\n" if document.markup == "code" else " > ",
        type_=document.type,
        read=read,
    )
    # a garbage collection over thousands of pieces would take longer than the rest of the work
    with without_garbage_collection():
        pieces = _pieces(document, limits, pointer, partial(_stays_whole, limits, settings))
        is_packed = settings.granularity == "packed" and document.markup in _PACKED
        return _chunks(document, limits, pack(limits, pieces) if is_packed else pieces)


def _pieces(
    document: Document, limits: Measure, pointer: str, stays_whole: Callable[[int, int], bool]
) -> Iterable[ChunkSpan]:
    if document.markup == "json":
        return json.cut(limits, pointer, stays_whole)
    if stays_whole(*trim(document.text, 0, len(document.text))):
        return [ChunkSpan(0, len(document.text), title=document.title)]
    return _CUTTERS[document.markup](limits, document)


def _lines(limits: Measure, document: Document) -> Iterator[ChunkSpan]:
    for start, end in lines.cut(limits, 0, len(document.text)):
        yield ChunkSpan(start, end, title=document.title)


#: The cutter for each markup. JSON is handled separately because of its pointers.
_CUTTERS: dict[str, Callable[[Measure, Document], Iterator[ChunkSpan]]] = {
    "lines": _lines,
    "markdown": markdown.cut,
    "keys": yaml_toml.cut,
    "table": table.cut,
    "code": code.cut,
}


def _stays_whole(limits: Measure, settings: ChunkSettings, start: int, end: int) -> bool:
    """Return whether the span is below the threshold and short enough for the model."""
    if not settings.threshold:
        return False
    tokens = limits.count(start, end)
    length = limits.length(start, end) if settings.unit == "characters" else tokens
    return length < settings.threshold and tokens <= limits.room - limits.slack


#: A piece: its start and end, its text, itself, its readable form if that differs, and the least number of its tokens.
#: Named tuples take three times as long to make.
_Placed = tuple[int, int, str, ChunkSpan, str | None, int]
#: One column for each of these.
_Columns = tuple[Sequence[int], Sequence[int], Sequence[str], Sequence[ChunkSpan], Sequence[str | None], Sequence[int]]


def _chunks(document: Document, limits: Measure, pieces: Iterable[ChunkSpan]) -> list[Chunk]:
    text = limits.text
    starts, ends, texts, pieces, reads, own_tokens = _placed(limits, *_trimmed(text, list(pieces)))
    if not starts:
        return []
    _, _, above, pointers, titles, node_types, symbols, scopes = zip(*pieces, strict=True)
    context, context_tokens = zip(*contexts(limits, above), strict=True)
    edges = np.array((starts, ends))
    before, behind = limits.tokens(edges)
    tokens = np.maximum(behind - before, own_tokens) + context_tokens
    first_lines, last_lines = (_line_breaks(text).searchsorted(edges) + 1).tolist()
    levels, pages, stems = repeat(0), _pages(document, edges[0]), repeat("")
    positions = (texts, starts, ends, first_lines, last_lines, tokens.tolist(), context)
    columns = (*positions, pointers, titles, symbols, node_types, scopes, levels, pages, reads, stems)
    return list(map(partial(tuple.__new__, Chunk), zip(*columns, strict=False)))


def _trimmed(text: str, pieces: list[ChunkSpan]) -> tuple[list[int], list[str], list[ChunkSpan]]:
    """Return the starts and the texts of the pieces without surrounding white space, and those that have some text."""
    starts = [piece[0] for piece in pieces]
    texts = [text[piece[0] : piece[1]].rstrip() for piece in pieces]
    for number in [number for number, part in enumerate(texts) if part[:1].isspace()]:
        starts[number], texts[number] = trimmed(text, *pieces[number][:2])
    if "" not in texts:
        return starts, texts, pieces
    kept = list(map(bool, texts))
    return list(compress(starts, kept)), list(compress(texts, kept)), list(compress(pieces, kept))


def _placed(limits: Measure, starts: list[int], texts: list[str], pieces: list[ChunkSpan]) -> _Columns:
    """Return the pieces in order. Those that are too long on their own are cut again."""
    ends = list(map(add, starts, map(len, texts)))
    reads, in_whole = limits.form.parts(starts, texts)
    too_long = {number for number, whole in in_whole.items() if not _fits(limits, texts[number], reads[number], whole)}
    columns = starts, ends, texts, pieces, reads, [1] * len(starts)
    if not too_long and all(map(lt, starts, starts[1:])):
        return columns
    cut = (
        _cut_again(limits, each[0], each[2], each[3]) if number in too_long else (each,)
        for number, each in enumerate(zip(*columns, strict=True))
    )
    ordered = sorted(chain.from_iterable(cut), key=itemgetter(0, 1))
    starts_, ends_, texts_, pieces_, reads_, own_tokens = zip(*ordered, strict=True)
    return starts_, ends_, texts_, pieces_, reads_, own_tokens


def _fits(limits: Measure, part: str, read: str | None, in_whole: str) -> bool:
    return limits.fits_alone(part if read is None else read, in_whole)


def _cut_again(limits: Measure, start: int, part: str, piece: ChunkSpan) -> Iterator[_Placed]:
    """Cut a part in its written form, which is at least as long as its readable form."""
    written = limits.of_written(part)
    for first, last in lines.cut(written, 0, len(part)):
        at, text = trimmed(part, first, last)
        if text:
            at += start
            yield at, at + len(text), text, piece, limits.form.part(text), max(1, written.count(first, last))


def _pages(document: Document, starts: Offsets) -> list[int] | list[None]:
    """Return the page (from 1) of each character offset in `starts`; None if the document has no pages."""
    if not document.pages:
        return [None] * len(starts)
    page_numbers: list[int] = np.maximum(1, np.searchsorted(document.pages, starts, side="right")).tolist()
    return page_numbers


def _line_breaks(text: str) -> Offsets:
    """Return the character offsets of the newlines."""
    raw = np.frombuffer(text.encode(), dtype=np.uint8)
    breaks = (raw == ord("\n")).nonzero()[0]
    return breaks if len(raw) == len(text) else char_offsets(raw, breaks)

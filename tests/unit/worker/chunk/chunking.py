"""Properties of all chunks, whatever they were cut from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from schemas.content.document import Chunk, Document
from schemas.content.source import ChunkSettings
from tests.parsing import parse
from tests.pumps import grows_too_fast
from worker.chunk import chunk
from worker.parse import Limits
from worker.reading import as_read
from worker.tokens.byte_tables import Offsets
from worker.tokens.tokenizers import Tokenizer, cl100k

#: Characters of a text whose time is compared with that of an eighth of it.
LONG = 400_000


class Characters:
    """Each of so many characters is a token."""

    def __init__(self, each: int = 1) -> None:
        self.each = each

    def starts(self, text: str) -> Offsets:
        return np.arange(0, len(text), self.each)


def cut(
    text: str,
    name: str = "a.txt",
    *,
    settings: ChunkSettings | None = None,
    max_tokens: int = 8192,
    pointer: str = "",
    tokenizer: Tokenizer | None = None,
) -> list[Chunk]:
    settings, tokenizer = settings or ChunkSettings(), tokenizer or cl100k()
    document = parse(name, text.encode(), Limits())
    chunks = chunk(document, settings, tokenizer, max_tokens, pointer)
    check(document, chunks)
    check_limits(chunks, settings, tokenizer, max_tokens)
    return chunks


def is_linear(text: Callable[[int], str], name: str) -> bool:
    """Whether the time to cut a text, which is made for about so many characters, grows no faster than the text."""

    def look(made: str) -> None:
        chunk(parse(name, made.encode(), Limits()), ChunkSettings(), cl100k(), 8192)

    return not grows_too_fast(look, text, LONG)


def check(document: Document, chunks: list[Chunk]) -> None:
    text = document.text
    assert [c.start_char for c in chunks] == sorted(c.start_char for c in chunks)
    for c in chunks:
        assert text[c.start_char : c.end_char] == c.text
        assert c.text.strip()
        assert c.tokens > 0
        assert c.read == as_read(document.type, c.text)
    # counting the lines before every start of a long text takes too long
    for c in [*chunks[:20], *chunks[-20:]]:
        assert c.start_line == text.count("\n", 0, c.start_char) + 1
        assert c.end_line == c.start_line + c.text.count("\n")


def check_limits(chunks: list[Chunk], settings: ChunkSettings, tokenizer: Tokenizer, max_tokens: int) -> None:
    for c in chunks:
        read = c.text if c.read is None else c.read
        alone = len(tokenizer.starts(read))
        length = alone if settings.unit == "tokens" else len(read)
        assert length <= settings.size or length < settings.threshold
        assert (alone if not c.context else len(tokenizer.starts(c.embedded_text))) <= max_tokens


def uncovered(text: str, chunks: list[Chunk]) -> str:
    """The text that is in no chunk, without white space."""
    rest, end = [], 0
    for c in chunks:
        rest.append(text[end : max(end, c.start_char)])
        end = max(end, c.end_char)
    return "".join("".join([*rest, text[end:]]).split())


def new(before: list[Chunk], after: list[Chunk]) -> int:
    """Chunks that must be embedded after an edit."""
    known = {c.embedded_text for c in before}
    return sum(c.embedded_text not in known for c in after)

"""The context before a chunk's text for the model: the headings or keys around it, kept short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import sub

from schemas.content.document import SEPARATOR_TOKENS, Chunk
from worker.chunk.measure import Measure
from worker.tokens.tokenizers import Tokenizer

Parts = tuple[str, ...]

#: Maximum characters per token in a context. Longer contexts lose their outer parts before tokenisation.
_MAX_CHARS_PER_TOKEN = 8


def contexts(measure: Measure, paths: Sequence[Parts]) -> Iterator[tuple[str, int]]:
    """Return the context of each path, "outer > inner", and its cost in tokens including the empty line after it.

    The measure may set another joint. No context has more than `measure.context_tokens`: outer parts are dropped first,
    then the end of the innermost part is cut off.
    """
    distinct = list(dict.fromkeys(paths))
    texts = [measure.joint.join(_last_within(path, measure.context_tokens * _MAX_CHARS_PER_TOKEN)) for path in distinct]
    by_path = {}
    for path, text, tokens in zip(distinct, texts, _counts(measure, texts), strict=True):
        # a text counted together with others may come out a token or two shorter than alone
        context = text if not text or tokens + 2 <= measure.context_tokens else _shortened(measure, path)
        by_path[path] = (context, min(tokens, measure.context_tokens) + SEPARATOR_TOKENS) if context else ("", 0)
    return map(by_path.__getitem__, paths)


def with_stem(chunks: Sequence[Chunk], stem: str, tokenizer: Tokenizer, max_tokens: int) -> Sequence[Chunk]:
    """Put a file's stem in front of the embedded text of its chunks, except those that it would make too long.

    No cut depends on the stem, so a file has the same chunks under any name.
    """
    if not stem:
        return chunks
    tokens = len(tokenizer.starts(stem)) + SEPARATOR_TOKENS
    return [
        chunk._replace(stem=stem, tokens=chunk.tokens + tokens) if chunk.tokens + tokens <= max_tokens else chunk
        for chunk in chunks
    ]


def _counts(measure: Measure, texts: list[str]) -> list[int]:
    """Count the tokens of each text in one call, which is many times faster for short texts."""
    if not any(texts):
        return [0] * len(texts)
    ends = list(accumulate(len(text) + 1 for text in texts))
    before = measure.tokenizer.starts("\n".join(texts)).searchsorted(ends).tolist()
    return list(map(sub, before, [0, *before]))


def _shortened(measure: Measure, path: Parts) -> str:
    parts = _last_within(path, measure.context_tokens * _MAX_CHARS_PER_TOKEN)
    while len(parts) > 1 and measure.alone(measure.joint.join(parts)) > measure.context_tokens:
        parts = parts[1:]
    text = measure.joint.join(parts)
    while measure.alone(text) > measure.context_tokens:
        text = text[: len(text) * 3 // 4].rstrip()
    return text


def _last_within(path: Parts, chars: int) -> Parts:
    """Return the last parts with at most `chars` characters in total; the start of the last part if it is longer."""
    parts: list[str] = []
    for part in reversed(path):
        if parts and len(part) > chars:
            break
        parts.append(part[:chars])
        chars -= len(parts[-1])
    return tuple(reversed(parts))

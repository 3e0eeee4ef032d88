"""What stands in front of a chunk's text for the model: the headings or keys around it, kept short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import sub

from worker.chunk.measure import SEPARATOR_TOKENS, Measure

Parts = tuple[str, ...]

#: Characters a token may have in a context; longer contexts lose their outer parts before they are tokenised.
_MOST_CHARS = 8


def contexts(measure: Measure, paths: Sequence[Parts]) -> Iterator[tuple[str, int]]:
    """The context of each path, "outer > inner", and what it costs in tokens with the empty line behind it.

    The measure may have another joint. None has more than `measure.context_tokens`: outer parts are left out first,
    then the innermost's end.
    """
    distinct = list(dict.fromkeys(paths))
    texts = [measure.joint.join(_last_within(path, measure.context_tokens * _MOST_CHARS)) for path in distinct]
    found = {}
    for path, text, tokens in zip(distinct, texts, _counts(measure, texts), strict=True):
        # counted among others a text can be a token or two shorter than by itself
        kept = text if not text or tokens + 2 <= measure.context_tokens else _shortened(measure, path)
        found[path] = (kept, min(tokens, measure.context_tokens) + SEPARATOR_TOKENS) if kept else ("", 0)
    return map(found.__getitem__, paths)


def _counts(measure: Measure, texts: list[str]) -> list[int]:
    """Tokens of each text, all counted in one go: that is many times faster for short texts."""
    if not any(texts):
        return [0] * len(texts)
    ends = list(accumulate(len(text) + 1 for text in texts))
    before = measure.tokenizer.starts("\n".join(texts)).searchsorted(ends).tolist()
    return list(map(sub, before, [0, *before]))


def _shortened(measure: Measure, path: Parts) -> str:
    kept = _last_within(path, measure.context_tokens * _MOST_CHARS)
    while len(kept) > 1 and measure.alone(measure.joint.join(kept)) > measure.context_tokens:
        kept = kept[1:]
    text = measure.joint.join(kept)
    while measure.alone(text) > measure.context_tokens:
        text = text[: len(text) * 3 // 4].rstrip()
    return text


def _last_within(path: Parts, chars: int) -> Parts:
    """The last parts that have at most `chars` characters together; if even the last has more, its start."""
    kept: list[str] = []
    for part in reversed(path):
        if kept and len(part) > chars:
            break
        kept.append(part[:chars])
        chars -= len(kept[-1])
    return tuple(reversed(kept))

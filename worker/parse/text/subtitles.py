"""Reads subtitles (WebVTT and SubRip): a line of text for each caption, after the time at which it is shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

from schemas.content.document import Document
from worker.parse.encodings import decode
from worker.parse.limits import Limits
from worker.parse.text import ruby

#: The line of times above a caption. Hours may be missing; fractions are not shown.
_TIMES = re.compile(r"\s*((?:\d{1,4}:)?\d{1,2}:\d\d)[.,]\d{1,3}\s+-->\s")
#: A tag of style, of a voice or of a time within a caption. A voice's tag contains the speaker's name.
_TAG = re.compile(
    r"<(?:v[.\w]{0,100}\s{1,20}(?P<voice>[^<>]{1,200})|(?P<name>/?[a-z0-9]{1,20})[^<>]{0,200})>|\{\\[^{}]{1,200}\}",
    re.IGNORECASE,
)
#: Tags of ruby text.
_RUBY = {"ruby": ruby.BEGIN, "/ruby": ruby.END, "rt": ruby.READING, "/rt": ruby.READ}


def read(data: bytes, _limits: Limits) -> Document:
    """Return the captions, one a line. A caption that repeats the previous one is left out. Raises as `decode`."""
    text = decode(data)
    captions = list(_captions(re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n"))))
    # a file without times is plain text
    return Document("\n".join(captions) or text, "subtitles")


def _captions(blocks: list[str]) -> Iterator[str]:
    before = ""
    for block in blocks:
        lines = block.strip("\n").split("\n")
        at = next((at for at, line in enumerate(lines[:2]) if _TIMES.match(line)), None)
        times = _TIMES.match(lines[at]) if at is not None else None
        if at is None or times is None:
            continue
        caption = " ".join(unescape(ruby.behind_words(_TAG.sub(_shown, " ".join(lines[at + 1 :])))).split())
        if caption and caption != before:
            yield f"{times[1]} {caption}"
        before = caption


def _shown(tag: re.Match[str]) -> str:
    """Return the replacement of a tag: the name of a speaker, or the mark of ruby text."""
    return f"{tag['voice']}: " if tag["voice"] else _RUBY.get((tag["name"] or "").lower(), "")

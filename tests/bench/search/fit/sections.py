"""Questions over the manuals of a product: which section a sentence was taken from. The sentence is the question."""

from __future__ import annotations

import random
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.bench.search.questions import Label, Question

#: Manuals of Node.js, as Debian installs them. Without them, this set is left out.
MANUALS = Path("/usr/share/doc/nodejs/api")
LARGEST = 120_000
#: Words of a sentence that is specific enough to be a question.
FEWEST, MOST = 8, 30
#: Words of a section that still has something to say without the sentence.
REST = 40
#: Every how many sections one is asked for.
EVERY, SEED = 3, 3
_HEADING = re.compile(r"^#{1,6} ", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.])\s+(?=[A-Z])")


class _Section(NamedTuple):
    text: str
    sentence: str


@cache
def _manuals() -> dict[str, list[_Section]]:
    """The sections of each manual, by file name. Those that are asked for lack their sentence."""
    chosen = random.Random(SEED)
    found = {}
    for path in sorted(MANUALS.glob("*.md")):
        text = path.read_text()
        if len(text) <= LARGEST:
            starts = [0, *(match.start() for match in _HEADING.finditer(text))]
            parts = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
            found[path.name] = [_taken(part, chosen) for part in parts if part]
    return found


def _taken(part: str, chosen: random.Random) -> _Section:
    """The section without a sentence of plain words, if it has one and still says something without it."""
    heading, _, body = part.partition("\n")
    paragraphs = [each for each in body.split("\n\n") if re.match(r"[A-Z]", each.strip())]
    sentences = [each.strip() for paragraph in paragraphs for each in _SENTENCE.split(paragraph)]
    fit = [each for each in sentences if FEWEST <= len(each.split()) <= MOST and "`" not in each and "[" not in each]
    if chosen.randrange(EVERY) or not fit:
        return _Section(part, "")
    sentence = chosen.choice(fit)
    rest = body.replace(sentence, "", 1)
    if len(rest.split()) < REST:
        return _Section(part, "")
    return _Section(f"{heading}\n{rest}", " ".join(sentence.split()))


def fill(folder: Path) -> None:
    """Write the manuals without the sentences that are asked."""
    folder.mkdir(parents=True)
    for name, sections in _manuals().items():
        (folder / name).write_text("".join(each.text for each in sections))


def ask() -> list[Question]:
    """A question for each sentence that was taken once, answered by the lines of its section."""
    times = Counter(each.sentence for sections in _manuals().values() for each in sections)
    asked = []
    for name, sections in _manuals().items():
        line = 1
        for each in sections:
            last = line + each.text.count("\n") - 1
            if each.sentence and times[each.sentence] == 1:
                label = Label(path=name, lines=(line, last))
                asked.append(Question(query=each.sentence, kind="sentence", relevant=(label,)))
            line = last + 1
    return asked

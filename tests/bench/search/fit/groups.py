"""Groups of questions of many kinds, with what the legs of a search find for each: what weights are fitted on.

A group has a folder of its own, or labels of its own over a folder of code: whole files, or lines of definitions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.bench.search import granularity, messages
from tests.bench.search.fit import sections
from tests.bench.search.folded import folded_sets
from tests.bench.search.indexed import indexed
from tests.bench.search.questions import Question
from tests.bench.search.recorded import Recording, kept, recording
from tests.bench.search.sets import SETS
from tests.bench.search.unanswerable import unanswerable

#: The largest number of questions of one group, and how they are drawn.
QUESTIONS, SEED = 240, 11
#: Languages of prose that count. With more, the others would outweigh code.
LANGUAGES = ("en", "de", "ru", "zh")
#: Sets over installed packages and this repository, all judged by files.
OF_FILES = ("repo", "symbols", "docstrings", "messages")
#: The kind of each set that has one of its own.
OF_OTHERS = {"functions": "functions", "manuals": "summaries"}

#: Groups beside repositories of code whose folders have little in common with the next one. The questions of each are
#: asked in the folder before.
DISTINCT = (
    *("files:docstrings", "files:repo", "functions:functions", "summaries:manuals"),
    *("prose:articles-en", "sections:manuals"),
)


class Group(NamedTuple):
    """A group of questions. `folder` is the name of its folder, which `ask` takes the place of."""

    folder: str
    fill: Callable[[Path], None]
    ask: Callable[[Path], Sequence[Question]]
    measure: str = "nDCG@10"


def groups(eval_dir: Path) -> dict[str, Group]:
    """All groups by name: the part before the colon is the kind."""
    folded = folded_sets(eval_dir)
    code = folded["code"]
    found = {
        f"files:{name}": Group(f"code-{name}", each.fill, asking(each.ask), "nDCG@10") for name, each in code.items()
    }
    found |= {
        f"spans:{name}": Group(f"code-{name}", each.fill, granularity.ask_names, "recall@10")
        for name, each in code.items()
    }
    found |= {f"files:{name}": Group(name, SETS[name].fill, asking(SETS[name].ask)) for name in OF_FILES}
    found |= {
        f"{kind}:{name}": Group(name, SETS[name].fill, asking(SETS[name].ask)) for name, kind in OF_OTHERS.items()
    }
    quoted = asking(messages.ask_quoted)
    found["files:quoted"] = Group("messages", SETS["messages"].fill, quoted)
    bare = Group("bare", granularity.fill_bare, asking(granularity.ask_bare), "recall@10")
    found["spans:docstrings"] = bare
    for language in LANGUAGES:
        each = folded["xquad"][language]
        found[f"prose:{language}"] = Group(f"xquad-{language}", each.fill, asking(each.ask), "MRR")
    for language in LANGUAGES[:2]:
        each = folded["articles"][language]
        found[f"prose:articles-{language}"] = Group(f"articles-{language}", each.fill, asking(each.ask), "MRR")
    if sections.MANUALS.is_dir():
        found["sections:manuals"] = Group("sections", sections.fill, asking(sections.ask), "recall@10")
    return found


def unanswered(of: Mapping[str, Group]) -> dict[str, Group]:
    """For each group of different folders, one with questions that its folder does not answer."""
    repositories = [name for name, each in of.items() if each.folder == name.replace("files:", "code-")]
    chosen = {name: of[name] for name in (*repositories, *DISTINCT) if name in of}
    asked = unanswerable({name: each.ask(Path()) for name, each in chosen.items()})
    return {name: Group(each.folder, each.fill, asking(partial(list, asked[name]))) for name, each in chosen.items()}


def recordings(place: Path, chosen: Mapping[str, Group], label: str = "asked") -> dict[str, Recording]:
    """The recording of each group. Runs the service only if one is missing."""
    files = {name: place / f"{label}-{name.replace(':', '-')}.pickle" for name in chosen}
    asked = {
        name: _some(each.ask(place / "folders" / each.folder)) for name, each in chosen.items() if files[name].exists()
    }
    found = {name: kept(files[name], questions) for name, questions in asked.items()}
    missing = {name: each for name, each in chosen.items() if found.get(name) is None}
    if missing:
        with indexed(place, {each.folder: each.fill for each in missing.values()}) as (service, tools):
            for name, each in missing.items():
                print(f"recording {name}", flush=True)
                questions = _some(each.ask(place / "folders" / each.folder))
                found[name] = recording(files[name], service, tools[each.folder], questions)
    return {name: whole for name in chosen if (whole := found[name])}


def asking(ask: Callable[[], Sequence[Question]]) -> Callable[[Path], Sequence[Question]]:
    """Asks the same, wherever the folder is."""
    return lambda _: ask()


def _some(questions: Sequence[Question]) -> list[Question]:
    """At most `QUESTIONS` of them, always the same, in their order."""
    count = min(QUESTIONS, len(questions))
    numbers = random.Random(SEED).sample(range(len(questions)), count)
    return [questions[number] for number in sorted(numbers)]

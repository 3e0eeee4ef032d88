"""Prints and writes the results of a set."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.bench.search.measures import MEASURES, Ranks, means, ranks
from tests.bench.search.questions import Passage, Question

#: The answers of each system, one for each question, by the system's name.
Answers = dict[str, list[list[Passage]]]


def show(questions: Sequence[Question], answers: Answers) -> None:
    """Print the measures of each system, and nDCG@10 by kind of question if there are several kinds."""
    found = {name: _ranks(questions, answered) for name, answered in answers.items()}
    _row("", MEASURES)
    for name, every in found.items():
        _row(name, _shown(means(every).values()))
    kinds = dict.fromkeys(question.kind for question in questions)
    if len(kinds) > 1:
        _row("nDCG@10 of", found)
        for kind in kinds:
            _row(kind, _shown(means(_of_kind(kind, questions, every))["nDCG@10"] for every in found.values()))


def write(path: Path, set_name: str, questions: Sequence[Question], answers: Answers) -> None:
    """Append each question with the answers of all systems and the ranks of its labels, one line of JSON each."""
    with path.open("a") as file:
        for number, question in enumerate(questions):
            passages = {name: answered[number] for name, answered in answers.items()}
            found = {name: ranks(question.relevant, answer) for name, answer in passages.items()}
            places = {name: [f"{p.path}:{p.line}" for p in answer] for name, answer in passages.items()}
            line = {"set": set_name, **question.model_dump(), "ranks": found, "answers": places}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _ranks(questions: Sequence[Question], answered: Sequence[Sequence[Passage]]) -> list[Ranks]:
    return [ranks(question.relevant, answer) for question, answer in zip(questions, answered, strict=True)]


def _of_kind(kind: str, questions: Sequence[Question], every: Sequence[Ranks]) -> list[Ranks]:
    return [found for question, found in zip(questions, every, strict=True) if question.kind == kind]


def _shown(values: Iterable[float]) -> list[str]:
    return [f"{value:.3f}" for value in values]


def _row(name: str, cells: Iterable[str]) -> None:
    print(f"{name:18}" + "".join(f"{cell:>14}" for cell in cells), flush=True)

"""Builds trees over each folder, asks all questions in all ways, and prints the coverage of each."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.search import report
from tests.bench.search.indexed import indexed
from tests.bench.search.questions import Passage, Question
from tests.bench.search.trees.coverage import DEPTH, coverage, difference, mean
from tests.bench.search.trees.folders import FOLDERS
from tests.service import TOOLS, Service, checked, eventually
from worker.settings import LOCAL_LLM

#: What a tree is compared with.
BASE = "hybrid"
#: Ways to search without a tree and with one, by the name of the row.
PLAIN: dict[str, dict[str, Any]] = {BASE: {"mode": "hybrid"}, "vector": {"mode": "vector"}}
WAYS: dict[str, dict[str, Any]] = {
    "collapsed": {"tree": "collapsed"},
    "tree_traversal": {"tree": "tree_traversal"},
    "tree_traversal, beam 32": {"tree": "tree_traversal", "beam": 32},
}
METHODS = ("adjacent", "gmm")
BUILD_SECONDS = 3_600

#: For each system, the coverage of each question.
Covered = dict[str, list[float]]


class Tree(NamedTuple):
    """How a tree is built."""

    method: str
    model: str


def run(place: Path, answers_file: Path | None) -> None:
    """Print the coverage for each folder and for all together."""
    total: Covered = {}
    for name, folder in FOLDERS.items():
        questions = folder.ask()
        with indexed(place, {name: folder.fill}) as (service, tools):
            answers = _answers(service, tools[name], questions)
        covered = {
            system: [coverage(question, passages) for question, passages in zip(questions, found, strict=True)]
            for system, found in answers.items()
        }
        _show(f"{name}: {len(questions)} questions", covered)
        if answers_file:
            report.write(answers_file, f"tree-{name}", questions, answers)
        for system, values in covered.items():
            total.setdefault(system, []).extend(values)
    _show(f"together: {len(total[BASE])} questions", total)


def trees() -> list[Tree]:
    """The trees to build: extracted ones, and written ones if a language model is configured."""
    model = os.environ.get("DEFAULT_LLM_MODEL")
    written = [model] if model and model != LOCAL_LLM and os.environ.get("LLM_API_KEY") else []
    return [Tree(method, model) for model in [LOCAL_LLM, *written] for method in METHODS]


def _answers(service: Service, tool: str, questions: Sequence[Question]) -> report.Answers:
    answers = {name: _ask(service, tool, questions, **body) for name, body in PLAIN.items()}
    for tree in trees():
        _build(service, tool, tree)
        for way, body in WAYS.items():
            answers[f"{way} {tree.method} {tree.model}"] = _ask(service, tool, questions, **body)
    return answers


def _ask(service: Service, tool: str, questions: Sequence[Question], **body: Any) -> list[list[Passage]]:
    every = [service.query(tool, question.query, top_k=DEPTH, **body) for question in questions]
    return [[Passage(hit["file_path"], hit["start_line"], hit["chunk_text"]) for hit in hits] for hits in every]


def _build(service: Service, tool: str, tree: Tree) -> None:
    """Build a tree in place of the tool's present one, and print its size."""
    began, path, status = time.monotonic(), f"{TOOLS}/{tool}", dict[str, Any]()
    config = {"enabled": True, "cluster_method": tree.method, "llm_model": tree.model}
    checked(service.client.patch(path, json={"config": {"raptor": config}}), 202)

    def is_over() -> bool:
        status.update(service.get(f"{path}/raptor/status"))
        return status["indexing_status"] in {"indexed", "error", "cancelled"}

    eventually(is_over, BUILD_SECONDS, lambda: str(status))
    if status["indexing_status"] != "indexed":
        raise SystemExit(f"The tree was not built: {status['error']}")
    levels = ", ".join(str(level["count"]) for level in status["nodes_by_level"])
    print(f"{tree.method} {tree.model}: {levels} nodes by level, {time.monotonic() - began:.0f} s", flush=True)


def _show(title: str, covered: Mapping[str, Sequence[float]]) -> None:
    """Print the mean coverage of each system, and its difference from the base, each with its standard error."""
    print(f"\n== {title}\n{'':56}{'coverage@10':>16}{f'less {BASE}':>18}", flush=True)
    for system, values in covered.items():
        own, gained = mean(values), difference(values, covered[BASE])
        print(
            f"{system:56}{f'{own.value:.3f} ± {own.error:.3f}':>16}{f'{gained.value:+.3f} ± {gained.error:.3f}':>18}",
            flush=True,
        )

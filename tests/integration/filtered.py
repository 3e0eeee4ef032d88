"""Random metadata, random filters by it, and a small model of which files pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any
from uuid import uuid4

from tests.service import PROJECT, TOOLS, Service, checked

NODES = f"/api/projects/{PROJECT}/nodes"
DECLARED = {"team": "string", "year": "int", "share": "float", "open": "bool", "due": "time", "tags": "strings"}
#: Values of the declared types, and of others.
VALUES: dict[str, list[Any]] = {
    "team": ["red", "blue", "it's; DROP", "réd", "", 7],
    "year": [2019, 2020, 2021, -5, 2**53 + 1, 2**53, 2020.5, "2020", True],
    "share": [0.25, 0.5, 1, -1e15, "0.5"],
    "open": [True, False, "true", 1],
    "due": [
        "2026-01-01T00:00:00Z",
        "2026-01-01T02:00:00+02:00",
        "2026-01-01T00:00:00.5Z",
        "2025-06-01t12:00:00z",
        "2026-13-01T00:00:00Z",
        "2026-01-01",
        "2026-01-01T00:00:00",
    ],
    "tags": [["a"], ["a", "b"], ["c", "a"], [], "a"],
}
#: Operands of filters.
ASKED: dict[str, list[Any]] = {
    "team": ["red", "blue", "it's; DROP", "réd", "", "x') OR 1=1 --"],
    "year": [2019, 2020, 2**53 + 1, 0],
    "share": [0.25, 0.5, 1, 0],
    "open": [True, False],
    "due": ["2026-01-01T00:00:00Z", "2025-12-31T23:00:00-01:00", "2025-06-01T12:00:00Z"],
    "tags": ["a", "b", "c", "x"],
}
ORDERED = {"year", "share", "due"}


def typed(key: str, value: Any) -> Any:
    kind = DECLARED[key]
    if kind == "time" and isinstance(value, str):
        try:
            time = datetime.fromisoformat(value.upper())
        except ValueError:
            return None
        return time if time.tzinfo else None
    if kind in {"int", "float"} and type(value) in {int, float}:
        return value if kind == "float" or value == int(value) else None
    types = {"string": str, "bool": bool, "strings": list}
    return value if kind in types and type(value) is types[kind] else None


def passes(values: dict[str, Any], conditions: dict[str, Any]) -> bool:
    return all(_passes(key, typed(key, values.get(key)), condition) for key, condition in conditions.items())


def _passes(key: str, value: Any, condition: Any) -> bool:
    asked = condition if isinstance(condition, dict) else {"any": condition}
    return all(_holds(key, value, operator, operand) for operator, operand in asked.items())


def _holds(key: str, value: Any, operator: str, operand: Any) -> bool:
    held = value if isinstance(value, list) else [] if value is None else [value]
    operands = [
        each if DECLARED[key] == "strings" or operator == "exists" else typed(key, each)
        for each in (operand if isinstance(operand, list) else [operand])
    ]
    shared = [each in held for each in operands]
    meanings: dict[str, Callable[[], Any]] = {
        "exists": lambda: (value is not None) == operand,
        "any": lambda: any(shared),
        "all": lambda: value is not None and all(shared),
        "not": lambda: not any(shared),
        "gt": lambda: value is not None and value > operands[0],
        "gte": lambda: value is not None and value >= operands[0],
        "lt": lambda: value is not None and value < operands[0],
        "lte": lambda: value is not None and value <= operands[0],
    }
    return bool(meanings[operator]())


def draw_values(random: Random) -> dict[str, Any]:
    return {key: random.choice(VALUES[key]) for key in random.sample([*VALUES], random.randrange(4))}


def draw_filter(random: Random) -> dict[str, Any]:
    return {key: _draw_condition(random, key) for key in random.sample([*VALUES], random.choice((1, 1, 1, 2)))}


def _draw_condition(random: Random, key: str) -> Any:
    operators = ["any", "not", "exists", *(["all"] if key == "tags" else [])]
    operators += ["gt", "gte", "lt", "lte"] if key in ORDERED else []
    if random.random() < 0.3:
        return random.choice([random.choice(ASKED[key]), random.sample(ASKED[key], 2)])
    condition: dict[str, Any] = {}
    for operator in random.sample(operators, random.choice((1, 1, 2))):
        if operator == "exists":
            condition[operator] = random.random() < 0.5
        elif operator in {"any", "all", "not"}:
            condition[operator] = random.choice([random.choice(ASKED[key]), random.sample(ASKED[key], 2)])
        else:
            condition[operator] = random.choice(ASKED[key])
    return condition


class Shelf:
    """Folders and notes with random metadata, a tool over them, and the metadata that a model expects of each."""

    def __init__(self, running: Service, random: Random, notes: int, **config: Any) -> None:
        self._running, self._random = running, random
        self.top = running.node(f"shelf-{uuid4().hex[:8]}", "folder")
        self.folders: dict[str, dict[str, Any]] = {self.top: {}}
        self.notes: dict[str, tuple[str, dict[str, Any]]] = {}
        for _ in range(3):
            values = draw_values(random)
            folder = running.node("folder", "folder", parent_id=self.top, metadata=values)
            self.folders[folder] = values
        for number in range(notes):
            folder, values = random.choice([*self.folders]), draw_values(random)
            text = f"# Word note {number}\n\nEach word of note {number}."
            node = running.node(f"{number}.md", "markdown", text, parent_id=folder, metadata=values)
            self.notes[node] = folder, values
        self.tool = running.tool(node_id=self.top, config={"metadata": DECLARED, **config})
        running.wait(self.tool)

    def metadata(self, node: str) -> dict[str, Any]:
        """What a note has with what it inherits."""
        folder, values = self.notes[node]
        return {**self.folders[self.top], **self.folders[folder], **values}

    def expected(self, conditions: dict[str, Any]) -> set[str]:
        return {node for node in self.notes if passes(self.metadata(node), conditions)}

    def change(self) -> None:
        """Give a node or a folder other values."""
        node, values = self._random.choice([*self.notes, *self.folders]), draw_values(self._random)
        checked(self._running.client.patch(f"{NODES}/{node}", json={"metadata": values}), 200)
        if node in self.folders:
            self.folders[node] = values
        else:
            self.notes[node] = self.notes[node][0], values

    def found(self, conditions: dict[str, Any], **body: Any) -> set[str] | None:
        """The notes that a query finds; None if the filter selects none."""
        asked = {"query": "word note", "top_k": 100, "rerank": "none", "filters": {"metadata": conditions}, **body}
        answer = self._running.client.post(f"{TOOLS}/{self.tool}/query", json=asked)
        if answer.status_code == 422:
            assert answer.json()["code"] == "no_such_files", answer.text
            return None
        hits = checked(answer, 200)["results"]
        for hit in hits:
            values = self.metadata(hit["file_node_id"])
            kept = {key: value for key, value in values.items() if typed(key, value) is not None}
            assert hit.get("metadata", {}) == kept
        return {hit["file_node_id"] for hit in hits}

    def grepped(self, conditions: dict[str, Any]) -> set[str]:
        body = {"pattern": "word", "metadata": conditions, "head_limit": 1000}
        hits = self._running.post(f"{TOOLS}/{self.tool}/grep", body, 200)["hits"]
        return {hit["file_id_path"].rsplit("/", 1)[-1] for hit in hits}

    def listed(self, conditions: dict[str, Any]) -> set[str]:
        files = self._running.files(self.tool, metadata=json.dumps(conditions))
        return {file["file_node_id"] for file in files}

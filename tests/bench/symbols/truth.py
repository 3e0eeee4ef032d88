"""What an independent program knows of code: its definitions, and what each name in it means."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

#: The program that asks TypeScript's own language service.
_TYPESCRIPT = Path(__file__).parent / "typescript.cjs"


class Place(NamedTuple):
    """A line, from 1, of a file below the folder."""

    file: str
    line: int


class TrueDefinition(NamedTuple):
    """A definition: where its name stands, and its first and last line."""

    name: str
    place: Place
    first: int
    last: int


class TrueUse(NamedTuple):
    """A name in code, with the places in the folder that define it. `is_known`: the program knows what it means."""

    name: str
    place: Place
    is_call: bool
    is_known: bool
    targets: frozenset[Place]


class Truth(NamedTuple):
    """What a program knows of a folder."""

    definitions: list[TrueDefinition]
    uses: list[TrueUse]


def of_typescript(folder: Path, modules: Path) -> Truth:
    """What TypeScript's language service, installed below `modules`, knows of a folder."""
    command = ["node", str(_TYPESCRIPT), str(folder), str(modules / "typescript")]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    definitions = [TrueDefinition(name, Place(file, line), *lines) for name, file, line, *lines in found["definitions"]]
    uses = [
        TrueUse(name, Place(file, line), is_call, is_known, places(targets))
        for name, file, line, is_call, is_known, targets in found["uses"]
    ]
    return Truth(definitions, uses)


def places(found: Iterable[tuple[str, int]]) -> frozenset[Place]:
    """Places in the folder."""
    return frozenset(Place(file, line) for file, line in found)

"""Precision and recall of definitions, references and callers, beside pyright and TypeScript's language service.

The packages are installed from `package-lock.json` for this bench alone, or are those of Python that Foldex needs.
`PACKAGES=flask,immer` measures some of them. A figure is of names that the language service knows.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sysconfig
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from api.search.code.calls import callers
from api.search.code.code_of_file import CONFIDENCES
from tests.bench.running import running
from tests.bench.symbols import pyright, truth
from tests.bench.symbols.truth import Place, TrueUse, Truth
from tests.service import TOOLS, Service
from worker.resources import Resources
from worker.settings import Settings
from worker.state.index import tools
from worker.state.search import code_texts
from worker.state.search.code_texts import Defined

HERE = Path(__file__).parent
PYTHON = ("werkzeug", "starlette", "rich")
#: Packages of npm that bring their source.
TYPESCRIPT = ("rxjs", "@tanstack/query-core")
#: Names of each package whose references are compared.
NAMES = 200
#: How a definition is called if a language service names its class instead.
_MADE = frozenset({"__init__", "constructor"})


class Node(NamedTuple):
    """A definition, or with an empty path what is outside all definitions of a file."""

    file: str
    path: str


class Edge(NamedTuple):
    """A call of one definition in another."""

    caller: Node
    target: Node


class Share(NamedTuple):
    """How many of some things are right."""

    right: int
    of: int

    def __str__(self) -> str:
        return f"{self.right / self.of if self.of else 1:.3f} of {self.of}"


def run(place: Path) -> None:
    if shutil.which("node") is None or shutil.which("npm") is None:
        print("left out: install Node.js, which runs the language services")
        return
    modules = _installed(place)
    wanted = [name for name in os.environ.get("PACKAGES", "").split(",") if name] or [*PYTHON, *TYPESCRIPT]
    code = place / "code"
    folders = {name: _copied(name, modules, code / name.replace("/", "-")) for name in wanted}
    with running(place, code) as service:
        resources = Resources(Settings(auth="off", database_url=service.database_url, foldex_home=service.home))
        for name, folder in folders.items():
            tool = service.local_tool(folder)
            service.wait(tool, seconds=600)
            is_python = any(folder.rglob("*.py"))
            known = pyright.of_python(folder, modules) if is_python else truth.of_typescript(folder, modules)
            _print(name, Comparison(service, resources, tool, known))
        resources.pool.close()


def _installed(place: Path) -> Path:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, place)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    subprocess.run(command, check=True, cwd=place)
    return place / "node_modules"


def _copied(name: str, modules: Path, target: Path) -> Path:
    """The source of a package, in a folder of its own, as its imports name it."""
    is_script = (modules / name).is_dir()
    source = modules / name / "src" if is_script else Path(sysconfig.get_paths()["purelib"]) / name
    wanted = {".ts", ".tsx"} if is_script else {".py"}
    for path in sorted(source.rglob("*")):
        if path.suffix in wanted and "__tests__" not in path.parts:
            copied = target / (path.relative_to(source) if is_script else path.relative_to(source.parent))
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copied)
    return target


class Comparison:
    """What Foldex found in a folder, beside what a language service knows of it."""

    def __init__(self, service: Service, resources: Resources, tool: str, known: Truth) -> None:
        self._service, self._tool, self._known = service, tool, known
        self._pool = resources.pool
        index = tools.index_of_tool(self._pool, UUID(tool))
        assert index is not None
        self._index = index.id
        paths = {UUID(file["file_id"]): file["file_path"] for file in service.files(tool)}
        self._paths = paths
        self._by_file = {paths[id_]: rows for id_, rows in code_texts.outlines(self._pool, paths).items()}
        self._targets = frozenset(each.place for each in known.definitions)

    def definitions(self) -> tuple[Share, Share]:
        """Precision and recall of definitions."""
        matched = [self._defined(each.name, each.place) for each in self._known.definitions]
        found = set(filter(None, matched))
        total = sum(map(len, self._by_file.values()))
        return Share(len(found), total), Share(sum(each is not None for each in matched), len(matched))

    def references(self) -> tuple[Share, Share]:
        """Precision and recall of the lines that use a name, over some names."""
        uses = defaultdict[str, list[TrueUse]](list)
        for use in self._known.uses:
            uses[use.name].append(use)
        names = {each.name for each in self._known.definitions}
        chosen = sorted(names & uses.keys(), key=lambda name: hashlib.sha256(name.encode()).digest())[:NAMES]
        judged = right = found_lines = wanted_lines = 0
        for name in chosen:
            listed = self._service.pages(f"{TOOLS}/{self._tool}/references", limit=1000, name=name)
            found = {Place(each["file_path"], each["start_line"]) for each in listed}
            true = {use.place for use in uses[name] if use.targets & self._targets}
            known = {use.place for use in uses[name] if use.is_known}
            judged += len(found & known)
            right += len(found & true)
            found_lines += len(found & true)
            wanted_lines += len(true)
        return Share(right, judged), Share(found_lines, wanted_lines)

    def edges(self, wrong: Callable[[str, Edge], None]) -> tuple[dict[str, Share], Share, Share]:
        """Precision of the edges by how sure they are, precision and recall of all."""
        true, known = set[Edge](), defaultdict[tuple[Node, str], bool](bool)
        for use in self._known.uses:
            if use.is_call:
                caller = self._around(use.place)
                known[caller, use.name] |= use.is_known
                for place in use.targets & self._targets:
                    if (target := self._at(place)) is not None:
                        true.add(Edge(caller, _canonical(target, use.name)))
        found = self._found({name for _, name in known} | {_name(edge.target) for edge in true})
        # a call of a class calls its constructor too, and services name one of the two
        made = {edge: Edge(edge.caller, _canonical(edge.target, "")) for edge in found}
        right = {edge for edge in found if edge in true or made[edge] in true}
        judged = {edge: sure for edge, sure in found.items() if edge in right or known.get((edge[0], _name(edge[1])))}
        for edge in judged.keys() - right:
            wrong(f"wrong, {judged[edge]}", edge)
        for edge in true - found.keys():
            wrong("missing", edge)
        return (
            {sure: _of(edge in right for edge in judged if judged[edge] == sure) for sure in CONFIDENCES},
            Share(sum(edge in right for edge in judged), len(judged)),
            Share(len(true & found.keys()), len(true)),
        )

    def _found(self, names: set[str]) -> dict[Edge, str]:
        """The edges to all definitions with these names, each with how sure it is."""
        found: dict[Edge, str] = {}
        for file, rows in self._by_file.items():
            for row in rows:
                if row.name not in names:
                    continue
                target = Node(file, row.path)
                for item in callers(self._pool, self._index, row.name, [row], 1).items:
                    path = "/".join(filter(None, (item.scope, item.name)))
                    edge = Edge(Node(str(item.file_path), path), target)
                    known = found.get(edge, item.confidence)
                    found[edge] = min(known, item.confidence, key=CONFIDENCES.index)
        return found

    def _defined(self, name: str, place: Place) -> Defined | None:
        """The definition that Foldex has of what is named at a place."""
        rows = self._by_file.get(place.file, ())
        around = [each for each in rows if each.name == name and each.start_line <= place.line <= each.end_line]
        return max(around, key=lambda each: (each.start_line, each.number), default=None)

    def _at(self, place: Place) -> Node | None:
        names = [each.name for each in self._known.definitions if each.place == place]
        row = next(filter(None, (self._defined(name, place) for name in names)), None)
        return Node(place.file, row.path) if row else None

    def _around(self, place: Place) -> Node:
        around = [
            each
            for each in self._known.definitions
            if each.place.file == place.file and each.first <= place.line <= each.last
        ]
        if not around:
            return Node(place.file, "")
        inner = max(around, key=lambda each: each.first)
        row = self._defined(inner.name, inner.place)
        return Node(place.file, row.path if row else inner.name)


def _of(right: Iterable[bool]) -> Share:
    each = list(right)
    return Share(sum(each), len(each))


def _name(node: Node) -> str:
    return node.path.rpartition("/")[2]


def _canonical(node: Node, called: str) -> Node:
    """The class itself for what makes one: language services name one or the other."""
    scope, _, name = node.path.rpartition("/")
    return Node(node.file, scope) if name in _MADE and called not in _MADE and scope else node


def _print(name: str, compared: Comparison) -> None:
    shown: list[str] = []
    by_confidence, precision, recall = compared.edges(
        lambda why, edge: shown.append(f"{why}: {edge.caller} → {edge.target}")
    )
    rows: Iterable[tuple[str, Share, Share]] = [
        ("definitions", *compared.definitions()),
        ("references", *compared.references()),
        ("callers", precision, recall),
    ]
    for what, *shares in rows:
        print(f"{name}, {what}: precision {shares[0]}, recall {shares[1]}", flush=True)
    for sure, share in by_confidence.items():
        print(f"{name}, callers that are {sure}: precision {share}", flush=True)
    for line in sorted(shown) if os.environ.get("SHOW") else ():
        print(line)

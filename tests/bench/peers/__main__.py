"""`make bench-peers [PEERS=txtai,langchain] [ROUNDS=3]`: Foldex and other indexers over one corpus, in one run.

Peers embed within their own process at no cost. Foldex runs whole, and asks a provider's fake over HTTP on the same
cores.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from signal import SIGKILL
from typing import Any, Self

from tests.bench.folder import corpus
from tests.bench.running import running
from tests.service import PROJECT, TOOLS, Service

PROGRAMS = Path(__file__).parent / "programs"
#: Peers by name, each with its program.
PEERS = {
    "txtai (sqlite + faiss)": "txtai_sqlite",
    "LangChain index(), in memory": "langchain_index",
    "LlamaIndex, in memory": "llama_index_pipeline",
    "CocoIndex → LanceDB": "cocoindex_lancedb",
}
#: Foldex' rows, each with the project and granularity of its index. Projects share no vector, and only the first meets
#: idle, cold processes. Filled chunks (`packed`) are what peers make.
FOLDEX = {
    "Foldex, first folder": (PROJECT, "definition"),
    "Foldex, next folder": ("project-2", "definition"),
    "Foldex, filled chunks": ("project-3", "packed"),
}
#: Seconds that Foldex may take for a phase.
PATIENCE = 900
#: Every such file is edited.
EDIT_EVERY = 100


@dataclass(slots=True)
class Round:
    """Seconds of each phase, with what the index then held."""

    first: float
    unchanged: float
    edited: float
    chunks: int
    durable: bool


@dataclass(slots=True)
class Line:
    """The rounds of one system."""

    name: str
    rounds: list[Round] = field(default_factory=list)

    def median(self, figure: Callable[[Round], float]) -> float:
        """The median of a figure over all rounds."""
        return statistics.median(map(figure, self.rounds))


def main() -> None:
    """Run all systems round by round, so that noise of the machine meets all of them alike, and print the table."""
    wanted = [name for name in os.environ.get("PEERS", "").lower().split(",") if name]
    chosen = {name: program for name, program in PEERS.items() if not wanted or program.startswith(tuple(wanted))}
    if wanted and not chosen:
        sys.exit(f"PEERS holds beginnings of {', '.join(PEERS.values())}, separated by commas.")
    rounds = int(os.environ.get("ROUNDS") or 3)
    python = sys.argv[1]
    lines = {name: Line(name) for name in (*chosen, *FOLDEX)}
    for number in range(rounds):
        for name, program in chosen.items():
            print(f"round {number + 1} of {rounds}: {name}", file=sys.stderr, flush=True)
            with _corpus() as (folder, size):
                lines[name].rounds.append(_peer(python, program, folder))
        print(f"round {number + 1} of {rounds}: Foldex", file=sys.stderr, flush=True)
        with _corpus() as (folder, size):
            for name, measured in zip(FOLDEX, _foldex(folder), strict=True):
                lines[name].rounds.append(measured)
    _print(lines.values(), size / 1e6)


@contextmanager
def _corpus() -> Iterator[tuple[Path, int]]:
    with tempfile.TemporaryDirectory(prefix="foldex-peers-") as place:
        folder = Path(place) / "corpus"
        yield folder, corpus(folder)


def _edit(folder: Path) -> None:
    for path in sorted(path for path in folder.rglob("*") if path.is_file())[::EDIT_EVERY]:
        path.write_bytes(path.read_bytes() + b"\n\nThis line was added.\n")


def _timed(act: Callable[[], object]) -> float:
    started = time.monotonic()
    act()
    return time.monotonic() - started


def _peer(python: str, program: str, folder: Path) -> Round:
    with tempfile.TemporaryDirectory(prefix="foldex-peer-") as state:
        with _Program(python, program, state) as running_:
            first = _timed(lambda: running_.ask(f"index {folder}"))
            unchanged = _timed(lambda: running_.ask(f"index {folder}"))
            _edit(folder)
            edited = _timed(lambda: running_.ask(f"index {folder}"))
            chunks = running_.ask("count")
        # the one before was killed
        with _Program(python, program, state) as again:
            return Round(first, unchanged, edited, chunks, durable=again.ask("count") == chunks)


class _Program:
    """A peer's process, which has imported what it needs. It ends by SIGKILL."""

    def __init__(self, python: str, program: str, state: str) -> None:
        environment = {
            **os.environ,
            # litellm carries the token table that tiktoken would download
            "TIKTOKEN_CACHE_DIR": f"{sysconfig.get_path('purelib')}/litellm/litellm_core_utils/tokenizers",
            "COCOINDEX_DISABLE_USAGE_TRACKING": "1",
            # its vectors are chosen by hash
            "PYTHONHASHSEED": "0",
        }
        self._name = program
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it ends with the process, in __exit__
        self._child = subprocess.Popen(
            [python, str(PROGRAMS / f"{program}.py"), state],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment,
        )

    def __enter__(self) -> Self:
        self._answer()
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.communicate()
        self._log.close()

    def ask(self, command: str) -> int:
        """Carry a command out. Returns the chunks that the index then holds."""
        assert self._child.stdin
        self._child.stdin.write(command + "\n")
        self._child.stdin.flush()
        return int(self._answer()["chunks"])

    def _answer(self) -> Any:
        assert self._child.stdout
        line = self._child.stdout.readline()
        if not line:
            self._log.seek(0)
            raise SystemExit(f"The program {self._name} has ended:\n{self._log.read()[-2_000:]}")
        return json.loads(line)


def _foldex(folder: Path) -> list[Round]:
    """Index the folder for each row of `FOLDEX`."""
    with tempfile.TemporaryDirectory(prefix="foldex-bench-") as place:
        with running(Path(place), folder, CHUNK_SIZE_TOKENS="512", CHUNK_OVERLAP_TOKENS="64") as service:
            created = [_created(service, folder, *row) for row in FOLDEX.values()]
            firsts, tools = zip(*created, strict=True)
            unchanged = [_timed(partial(_reindex, service, tool)) for tool in tools]
            _edit(folder)
            edited = [_timed(partial(_reindex, service, tool)) for tool in tools]
            chunks = [int(service.status(tool)["total_chunks"]) for tool in tools]
            _kill(service)
        with running(Path(place), folder, CHUNK_SIZE_TOKENS="512", CHUNK_OVERLAP_TOKENS="64") as service:
            durable = [_found(service, tool, count) for tool, count in zip(tools, chunks, strict=True)]
    return [Round(*each) for each in zip(firsts, unchanged, edited, chunks, durable, strict=True)]


def _created(service: Service, folder: Path, project: str, granularity: str) -> tuple[float, str]:
    """Index the folder for the project. Returns the seconds and the tool."""
    started = time.monotonic()
    tool = service.local_tool(folder, project=project, config={"granularity": granularity})
    service.wait(tool, seconds=PATIENCE)
    return time.monotonic() - started, tool


def _reindex(service: Service, tool: str) -> None:
    service.post(f"{TOOLS}/{tool}/reindex", {})
    service.wait(tool, seconds=PATIENCE)


def _found(service: Service, tool: str, chunks: int) -> bool:
    """Whether the index has all its chunks, and answers by their vectors."""
    return bool(service.status(tool)["total_chunks"] == chunks and service.query(tool, "line", mode="vector"))


def _kill(service: Service) -> None:
    """End the API, the workers and the beat by SIGKILL, each with all its processes."""
    for process in service.processes.values():
        process.signal(SIGKILL)


def _print(lines: Collection[Line], megabytes: float) -> None:
    print(f"\nmedians of {len(next(iter(lines)).rounds)} rounds, {megabytes:.1f} MB, {os.cpu_count()} cores\n")
    print("| | chunks | MB/s | first run s | nothing changed s | 1 % changed s | durable |")
    print("|---|---|---|---|---|---|---|")
    for line in lines:
        first = line.median(lambda each: each.first)
        figures = [f"{line.median(figure):.2f}" for figure in (lambda each: each.unchanged, lambda each: each.edited)]
        durable = "yes" if all(each.durable for each in line.rounds) else "no"
        chunks = f"{line.rounds[-1].chunks:,}"
        print(f"| {line.name} | {chunks} | {megabytes / first:.2f} | {first:.1f} | {' | '.join(figures)} | {durable} |")


if __name__ == "__main__":
    main()

"""Six tasks over two packages as an agent does them: characters and calls of the tools, beside `rg` and reading.

Both are scripts. A call costs what is asked and what is answered. The other way looks for a name, and reads the lines
around each place, as agents do. A task counts only if the answers of the tools contain what was asked for. Vectors mean
nothing here, so that search finds by words alone.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from api.search.grep import ripgrep
from tests.agents import Agent, over_http
from tests.bench.running import running

PACKAGES = ("werkzeug", "tornado")
#: Lines that an agent reads before and after a place to understand it.
BEFORE, AFTER = 30, 10
#: Places that it looks at.
MOST = 12


@dataclass
class Way:
    """What one way of doing a task cost."""

    calls: int = 0
    said: list[str] = field(default_factory=list)

    @property
    def characters(self) -> int:
        """Characters of all questions and answers."""
        return sum(map(len, self.said))

    def lacking(self, answer: Sequence[str]) -> list[str]:
        """What the answers do not contain, though it was asked for."""
        return [part for part in answer if not any(part in said for said in self.said[1::2])]

    def told(self, answer: Sequence[str]) -> str:
        """The cost, and what is lacking all the same."""
        lacking = ", ".join(self.lacking(answer))
        return f"{self.characters:,} characters in {self.calls} calls" + (f", without {lacking}" if lacking else "")

    def note(self, asked: str, answer: str) -> str:
        """Count a call."""
        self.calls += 1
        self.said += [asked, answer]
        return answer


@dataclass
class Reader(Way):
    """An agent that has `rg`, and reads lines of files."""

    folder: Path = field(default_factory=Path)

    def rg(self, pattern: str, *options: str, place: str = ".") -> str:
        """Search."""
        program = ripgrep.program()
        assert program is not None
        command = [program, "-n", "--no-heading", "--sort", "path", *options, "-e", pattern, place]
        found = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False).stdout
        return self.note(f"rg -n {' '.join(options)} {pattern!r} {place}", found)

    def read(self, path: str, first: int, last: int) -> str:
        """Read lines."""
        lines = (self.folder / path).read_text().split("\n")
        return self.note(f"read {path} {first}-{last}", "\n".join(lines[max(0, first - 1) : last]))

    def around(self, found: str) -> None:
        """Read what is around the first places of an answer; places near each other are read at once."""
        seen: dict[str, int] = {}
        for path, line in re.findall(r"^\./([^:\n]+):(\d+):", found, re.MULTILINE)[:MOST]:
            if int(line) > seen.get(path, 0):
                self.read(path, int(line) - BEFORE, int(line) + AFTER)
                seen[path] = int(line) + AFTER


@dataclass
class Caller(Way):
    """An agent that has the tools."""

    agent: Agent | None = None
    folder: str = ""

    def ask(self, name: str, /, **arguments: object) -> str:
        """Call a tool."""
        assert self.agent is not None
        answer = self.agent.ask(name, folder=self.folder, **arguments)
        return self.note(f"{name} {json.dumps({**arguments, 'folder': self.folder})}", answer)


@dataclass(frozen=True)
class Task:
    """A question, what its answer contains, and how each agent finds it."""

    package: str
    question: str
    answer: Sequence[str]
    tools: Callable[[Caller], object]
    reading: Callable[[Reader], object]


def _called(*names: str) -> Callable[[Reader], object]:
    def find(reader: Reader) -> None:
        for name in names:
            reader.around(reader.rg(rf"\b{name}\(", "-tpy"))

    return find


def _body(reader: Reader) -> None:
    """Find the last of three definitions, two of which are overloads, and read it."""
    found = reader.rg("def match", place="werkzeug/routing/map.py")
    last = int(re.findall(r"^(\d+):", found, re.MULTILINE)[-1])
    reader.read("werkzeug/routing/map.py", last, last + 180)


TASKS = (
    Task(
        "werkzeug",
        "which functions call parse_options_header",
        ("parse_accept_header", "next_event", "parse_from_environ"),
        lambda agent: agent.ask("callers", name="parse_options_header"),
        _called("parse_options_header"),
    ),
    Task(
        "werkzeug",
        "where the size of form data in memory is limited",
        ("RequestEntityTooLarge",),
        lambda agent: agent.ask("search", query="limit the size of form data in memory"),
        lambda reader: reader.around(reader.rg("form_memory", "-i", "-tpy")),
    ),
    Task(
        "werkzeug",
        "what MapAdapter.match calls",
        ("get_default_redirect", "NotFound"),
        lambda agent: agent.ask("callers", name="MapAdapter.match", direction="callees"),
        _body,
    ),
    Task(
        "tornado",
        "what a change of add_future touches",
        ("tornado/gen.py", "tornado/websocket.py"),
        lambda agent: agent.ask("impact", name="add_future", max_tokens=1000),
        lambda reader: reader.around(reader.rg(r"\badd_future\b", "-tpy")),
    ),
    Task(
        "tornado",
        "what template.py defines",
        ("class Template", "class Loader"),
        lambda agent: agent.ask("outline", path="tornado/template.py", max_tokens=6000),
        lambda reader: reader.rg(r"^\s*(async def|def|class) ", place="tornado/template.py"),
    ),
    Task(
        "tornado",
        "who calls _unquote_or_none, and who calls those",
        ("PathMatches", "find_handler"),
        lambda agent: agent.ask("callers", name="_unquote_or_none", depth=2),
        _called("_unquote_or_none", r"\.match"),
    ),
)


def run(place: Path) -> None:
    root = Path(sysconfig.get_paths()["purelib"])
    folders = {name: place / "folders" / name for name in PACKAGES}
    for name, folder in folders.items():
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    fewer = 0
    with running(place, place / "folders") as service, over_http(service) as agent:
        for folder in folders.values():
            service.wait(service.local_tool(folder), seconds=600)
        for task in TASKS:
            ours, others = Caller(agent=agent, folder=task.package), Reader(folder=folders[task.package])
            task.tools(ours)
            task.reading(others)
            is_less = ours.characters < others.characters and ours.calls <= others.calls
            fewer += is_less and not ours.lacking(task.answer)
            print(
                f"{task.package}, {task.question}: {ours.told(task.answer)}; rg and reading: {others.told(task.answer)}"
            )
    print(f"fewer characters in no more calls: {fewer} of {len(TASKS)} tasks")

"""A seeded random user of one folder: edits and verbs in any order. At each rest the index must equal the model."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.model.content import ENDINGS, IGNORE_FILES, MAX_BYTES, Words, text
from tests.model.folders import Folder, Tree, tool_over
from tests.model.proof import Proof, Running, words_of
from tests.service import TOOLS, checked

#: Maximum number of actions between two proofs.
MAX_ACTIONS = 12


class Driven(Running, Protocol):
    """A running Foldex that can be told to work, and waited for."""

    def work(self, messages: int = 1) -> bool: ...

    def settle(self) -> None: ...

    def outlive(self) -> None: ...


@dataclass
class Machine:
    """The random user. `most` is the maximum number of files that one action touches."""

    here: Driven
    folder: Folder
    proof: Proof
    seed: int
    most: int = 3
    steps: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    gone: set[str] = field(default_factory=set)
    tools: list[str] = field(default_factory=list)
    #: The config that each tool should end up with, unless the change was cancelled.
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    _names: int = 0

    def __post_init__(self) -> None:
        self.by = random.Random(self.seed)
        self.words = Words(self.seed)
        self.edits: list[tuple[int, Callable[[], str | None]]] = [
            (8, self.create),
            (8, self.edit),
            (7, self.delete),
            (4, self.rename),
            (4, self.copy),
            (3, self.spoil),
            (2, self.touch),
            (3, self.move_directory),
            (2, self.delete_directory),
            (4, self.ignore),
            (2, self.obey),
            (4, self.upload),
        ]
        self.verbs: list[tuple[int, Callable[[], str | None]]] = [
            (6, self.reindex),
            (3, self.retry),
            (3, self.cancel),
            (3, self.patch),
            (2, self.add_tool),
            (2, self.delete_tool),
            (8, self.work),
            (2, self.look),
        ]

    # ---- running

    def begin(self, files: int) -> None:
        """Fill the folder, index it, and prove the result."""
        self.start(files)
        self.prove()

    def start(self, files: int) -> None:
        """Fill the folder, and begin to index it."""
        for _ in range(files):
            self.create_one()
        self.steps.append(f"begin with {files} files")
        self._add_tool({})

    def run(self, seconds: float, rounds: int | None = None) -> int:
        """Run rounds for some seconds, or at most `rounds` of them. Returns the number of proved rounds."""
        until, proved = time.monotonic() + seconds, 0
        while time.monotonic() < until and proved != rounds:
            self.round()
            proved += 1
        return proved

    def round(self) -> None:
        """Do some random actions, let everything come to rest, then prove."""
        self.folder.fresh = self.by.random() < 0.15
        for _ in range(self.by.randint(1, MAX_ACTIONS)):
            self.do(self.edits if self.by.random() < 0.6 else self.verbs)
        self.prove()

    def do(self, deeds: list[tuple[int, Callable[[], str | None]]]) -> None:
        (_, deed) = self.by.choices(deeds, [weight for weight, _ in deeds])[0]
        said = deed()
        if said is not None:
            self.steps.append(f"{deed.__name__} {said}".rstrip())
            self.done[deed.__name__] += 1

    def prove(self) -> None:
        """Let everything come to rest and compare. Tools that follow their folder get no reindex request."""
        for tool in self.tools:
            if not self.configs[tool].get("auto_reindex"):
                self.ask(tool, "reindex", {"full": self.by.random() < 0.1})
        self.steps.append("settle")
        self.here.settle()
        for tool in self.tools:
            self.let_go(tool)
            self.proof.prove_deletes(tool)
        self.here.outlive()
        for tool in self.tools:
            shown = self.shown(tool)
            assert shown["updating"] is None, shown
            wanted = {name: value for name, value in self.configs[tool].items() if value not in (None, [], False)}
            if self.configs[tool].get("use_ignore_files") is False:
                wanted["use_ignore_files"] = False
            found = {name: value for name, value in shown["config"].items() if name in self.configs[tool]}
            assert {**found, **wanted} == found, (shown["config"], self.configs[tool])
            self.proof.prove(tool, self.folder, self.gone, self.by)
        self.proof.prove_nothing_is_left()
        self.steps.append("proved")

    def let_go(self, tool: str) -> None:
        """Confirm that removals that were held back are intended."""
        held = checked(self.here.client.get(f"{TOOLS}/{tool}/status"), 200)["held_removals"]
        if held:
            assert self.folder.may_hold_removals
            self.steps.append(f"allow {held} removals")
            self.ask(tool, "reindex", {"allow_removals": True})
            self.here.settle()

    def ask(self, tool: str, verb: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        return checked(self.here.client.post(f"{TOOLS}/{tool}/{verb}", json=body), 202)

    def shown(self, tool: str) -> dict[str, Any]:
        return checked(self.here.client.get(f"{TOOLS}/{tool}"), 200)

    # ---- names and texts

    def a_name(self) -> str:
        self._names += 1
        return f"f{self._names}.{self.by.choices([*ENDINGS], [*ENDINGS.values()])[0]}"

    def a_directory(self) -> str:
        """The folder itself, an existing directory, or a new one in one of these; with a trailing slash."""
        found = ["", *(f"{path}/" for path in self.folder.directories())]
        chosen = self.by.choice(found)
        if self.by.random() < 0.2 and chosen.count("/") < 4:
            self._names += 1
            return f"{chosen}d{self._names}/"
        return chosen

    def a_file(self) -> str | None:
        files = [path for path in sorted(self.folder.files) if path.rpartition("/")[2] not in IGNORE_FILES]
        return self.by.choice(files) if files else None

    def a_text(self, name: str) -> bytes:
        return text(name, [self.words.new() for _ in range(self.by.choice([1, 1, 2, 3, 6]))])

    def write(self, path: str, data: bytes) -> None:
        self.gone |= words_of(self.folder.files.get(path, b""))
        self.folder.write(path, data)

    # ---- edits

    def create_one(self) -> str:
        path = self.a_directory() + self.a_name()
        self.write(path, self.a_text(path))
        return path

    def create(self) -> str:
        return " ".join(self.create_one() for _ in range(self.by.randint(1, self.most)))

    def edit(self) -> str | None:
        path = self.a_file()
        if path is not None:
            data = self.folder.files[path]
            more = self.by.random() < 0.4 and path.endswith((".md", ".txt")) and b"\0" not in data
            self.write(path, data + b"\n" + self.a_text(path) if more and len(data) < 2000 else self.a_text(path))
        return path

    def delete(self) -> str | None:
        gone = []
        for _ in range(self.by.choice([1, 1, self.most])):
            path = self.a_file()
            if path is not None:
                self.gone |= words_of(self.folder.files[path])
                self.folder.remove(path)
                gone.append(path)
        return " ".join(gone) or None

    def rename(self) -> str | None:
        """Change the name, the directory, the extension, or all of them."""
        path = self.a_file()
        if path is None:
            return None
        folder, _, name = path.rpartition("/")
        new = self.a_directory() + name if self.by.random() < 0.5 else f"{folder}/".lstrip("/") + self.a_name()
        if new == path:
            return None
        self.folder.move(path, new)
        return f"{path} to {new}"

    def copy(self) -> str | None:
        path = self.a_file()
        if path is None:
            return None
        new = self.a_directory() + self.a_name().rpartition(".")[0] + "." + path.rpartition(".")[2]
        self.write(new, self.folder.files[path])
        return f"{path} to {new}"

    def spoil(self) -> str | None:
        """Make a file empty, blank, binary, too large, or JSON that is cut off or too deep."""
        path = self.a_file()
        if path is None:
            return None
        kinds = {"empty": b"", "blank": b" \n\n ", "binary": b"\0\1\2\0" * 9, "large": b"word " * MAX_BYTES}
        if path.endswith(".json"):
            # at most MAX_BYTES, as an upload of more is refused
            kinds = {"broken": b'{"a": ', "deep": b"[" * 3_000}
        kind = self.by.choice([*kinds])
        self.write(path, kinds[kind])
        return f"{path}: {kind}"

    def touch(self) -> str | None:
        path = self.a_file()
        if path is not None:
            self.write(path, self.folder.files[path])
        return path

    def move_directory(self) -> str | None:
        found = self.folder.directories()
        if not found:
            return None
        old = self.by.choice(found)
        self._names += 1
        above = self.by.choice(["", *(f"{path}/" for path in found if not f"{path}/".startswith(f"{old}/"))])
        new = f"{above}d{self._names}"
        self.folder.move(old, new)
        return f"{old} to {new}"

    def delete_directory(self) -> str | None:
        found = self.folder.directories()
        if not found:
            return None
        path = self.by.choice(found)
        for one, data in self.folder.files.items():
            if one.startswith(f"{path}/"):
                self.gone |= words_of(data)
        self.folder.remove(path)
        return path

    def ignore(self) -> str:
        """Write an ignore file to some directory."""
        names = [name for path in self.folder.files for name in path.split("/") if name not in IGNORE_FILES]
        lines = ["*.tmp", "*.log", "!*.tmp", "!*.log", *(self.by.sample(sorted(names), min(2, len(names))))]
        lines += [f"{path.rpartition('/')[2]}/" for path in self.folder.directories()[:1]]
        chosen = self.by.sample(lines, min(len(lines), self.by.randint(0, 3)))
        path = self.a_directory() + self.by.choice(IGNORE_FILES)
        self.write(path, "".join(f"{line}\n" for line in chosen).encode())
        return f"{path}: {chosen}"

    def obey(self) -> str | None:
        """Remove an ignore file."""
        found = [path for path in sorted(self.folder.files) if path.rpartition("/")[2] in IGNORE_FILES]
        if not found:
            return None
        path = self.by.choice(found)
        self.folder.remove(path)
        return path

    def upload(self) -> str | None:
        """Upload new files and new versions, all of one directory."""
        if not isinstance(self.folder, Tree):
            return None
        folder = self.a_directory()
        there = [path for path in sorted(self.folder.files) if path.rpartition("/")[0] == folder.rstrip("/")]
        paths = [path for path in there if path.rpartition("/")[2] not in IGNORE_FILES][: self.most]
        paths += [folder + self.a_name() for _ in range(self.by.randint(1, self.most))]
        files = {path: self.a_text(path) for path in paths}
        for path in paths:
            self.gone |= words_of(self.folder.files.get(path, b""))
        self.folder.upload(files, folder.rstrip("/"))
        return " ".join(paths)

    # ---- verbs

    def a_tool(self) -> str:
        return self.by.choice(self.tools)

    def reindex(self) -> str:
        body = {"full": self.by.random() < 0.2, "allow_removals": self.by.random() < 0.1}
        self.ask(self.a_tool(), "reindex", body)
        return str(body)

    def retry(self) -> str:
        self.ask(self.a_tool(), "retry")
        return ""

    def cancel(self) -> str:
        """Cancel a tool's task, and with it the change of every tool that waits for that index."""
        tool = self.a_tool()
        index = self.shown(tool)["index"]["index_id"]
        before = {one: self.shown(one)["updating"] for one in self.tools}
        waiting = [one for one, update in before.items() if update and update["index"]["index_id"] == index]
        self.ask(tool, "cancel")
        for one in waiting:
            self.configs[one] = self.shown(one)["config"]
        # After a cancel the tool does not follow its folder by itself until the folder changes again.
        self.configs[tool] = {**self.shown(tool)["config"], "auto_reindex": False}
        return ""

    def patch(self) -> str:
        tool = self.a_tool()
        changes: list[dict[str, Any]] = [
            {"chunk_size": self.by.choice([None, 24])},
            {"exclude": self.by.choice([[], ["*.log"], ["*.md", "!f1*.md"]])},
            {"use_ignore_files": self.by.random() < 0.5},
        ]
        if isinstance(self.folder, Tree):
            changes.append({"auto_reindex": self.by.random() < 0.7})
        config = self.by.choice(changes)
        checked(self.here.client.patch(f"{TOOLS}/{tool}", json={"config": config}), 202)
        self.configs[tool] |= config
        return str(config)

    def _add_tool(self, config: dict[str, Any]) -> None:
        tool = tool_over(self.here.client, self.folder, config)
        self.tools.append(tool)
        self.configs[tool] = dict(config)

    def add_tool(self) -> str | None:
        if len(self.tools) > 2:
            return None
        config: dict[str, Any] = self.by.choice([{}, {"chunk_size": 24}, {"exclude": ["*.log"]}])
        self._add_tool(config)
        return str(config)

    def delete_tool(self) -> str | None:
        if len(self.tools) == 1:
            return None
        tool = self.a_tool()
        self.tools.remove(tool)
        checked(self.here.client.delete(f"{TOOLS}/{tool}"), 202)
        return ""

    def work(self) -> str:
        messages = self.by.randint(1, 5)
        self.here.work(messages)
        return str(messages)

    def look(self) -> str:
        """Query while tasks are running. Any answer will do, but there must be one."""
        mode = self.by.choice(["keyword", "vector", "hybrid"])
        body = {"query": "this part", "mode": mode, "refresh": self.by.choice(["none", "if_stale"])}
        checked(self.here.client.post(f"{TOOLS}/{self.a_tool()}/query", json=body), 200)
        return mode

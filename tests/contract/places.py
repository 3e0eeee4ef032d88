"""A project's folder beside one that it may not read, and everything that opens a local folder."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, cast
from unittest.mock import Mock
from uuid import uuid4

import pytest

from api.search.grep import local_files, ripgrep
from api.search.grep.pattern import compiled_pattern
from api.search.grep.scope import FileScope
from schemas.content.source import LocalSource
from schemas.errors import FileError, SourceError
from schemas.queries.grep import Grep
from tests.helpers import HELPERS
from worker.ignore import EVERYTHING, Rules
from worker.machine.handles import identity_of
from worker.sources import pages
from worker.sources.kind import ContentAccess, SourceOptions
from worker.sources.local import LocalFolder, OpenedPlace
from worker.sources.local_walk import WalkedFolder, walk
from worker.sources.registry import addresses, locate, open_source
from worker.sources.watching.directory import WatchedFolder
from worker.state.access import grants
from worker.state.pool import Pool

#: How a place that may not be read is refused.
REFUSALS = (SourceError, FileError)
SECRET = "the password of the neighbour"


@dataclass(frozen=True)
class Ground:
    """A project that may read `docs`, and its neighbour's folder, both with a file `a.md` and a folder `sub`."""

    pool: Pool
    root: Path
    project: str

    @property
    def docs(self) -> Path:
        return self.root / "mine" / "docs"

    @property
    def secret(self) -> Path:
        return self.root / "theirs"

    def access(self, *, auth: Any = "on", home: Path | None = None) -> ContentAccess:
        options = SourceOptions(auth, home or self.root / "home", [self.root], None, None)
        return ContentAccess(self.project, options, lambda: self.pool, Mock(), HELPERS)

    def opened(self, path: Path | None = None, rules: Rules = EVERYTHING, **access: Any) -> LocalFolder:
        source = LocalSource(kind="local", path=str(path or self.docs))
        folder = open_source(self.access(**access), source, rules)
        assert isinstance(folder, LocalFolder)
        return folder

    def swap(self, below: str = "") -> None:
        """Put a link to the neighbour's folder, or to what is `below` it, in the place of the project's own."""
        place = self.docs / below
        place.rename(place.with_name(f"{place.name}.away"))
        place.symlink_to(self.secret / below)

    def swap_back(self, below: str = "") -> None:
        place = self.docs / below
        place.unlink()
        place.with_name(f"{place.name}.away").rename(place)


def new_ground(pool: Pool, root: Path) -> Ground:
    """The folders, and a grant for the first."""
    made = Ground(pool, root, f"p-{uuid4().hex}")
    for folder, text, rules in ((made.docs, "mine", "*.log"), (made.secret, SECRET, "*.md")):
        (folder / "sub").mkdir(parents=True)
        (folder / "sub" / ".gitignore").write_text(rules)
        for name in ("a.md", "sub/a.md", f"{text.split()[-1]}.md"):
            (folder / name).write_text(text)
    grants.add(pool, made.project, str(made.docs))
    return made


def listed(ground: Ground) -> object:
    return [entry for page in pages(ground.opened(rules=Rules()), lambda: None) for entry in page.entries]


def listed_in_part(ground: Ground) -> object:
    folder = ground.opened()
    folder.narrow([b"sub", b"neighbour.md"])
    return folder.list(None)


def read(ground: Ground) -> object:
    folder, found = ground.opened(), []
    for key in (b"sub/a.md", b"a.md", b"neighbour.md"):
        with suppress(*REFUSALS):
            found.append(folder.read(key, 1000))
    return found


def judged(ground: Ground) -> object:
    # the neighbour's rules leave it out
    return SECRET if ground.opened(rules=Rules()).leaves_out(b"sub/a.md") else None


def walked(ground: Ground) -> object:
    folder = ground.opened()
    return [*walk(folder, Rules(), WalkedFolder(folder.real_path))]


def walked_in_part(ground: Ground) -> object:
    folder = ground.opened()
    return [*walk(folder, Rules(), WalkedFolder(folder.real_path), (b"sub",))]


def grepped(ground: Ground) -> object:
    program = ripgrep.program()
    if program is None:
        pytest.skip("install ripgrep to run")
    request = Grep(pattern="password", glob="*.md")
    folder, pattern = ground.opened(), compiled_pattern(request)
    index = Mock(id=uuid4(), settings=Mock(exclude=[], include=[], use_ignore_files=False, keep=[]))
    search = Mock(files=FileScope(request), pattern=pattern, index=index, max_bytes=1000)
    return [*local_files.matching_keys(cast(Any, search), folder, program)] and SECRET


def watched(ground: Ground) -> object:
    place = OpenedPlace(str(ground.docs), identity_of(ground.docs.stat()))
    ground.opened().check()  # it swaps
    woken = Event()
    folder = WatchedFolder(place, Rules(), None, woken.set)
    assert woken.wait(30)
    folder.close()
    return sorted(folder._watched)


def located(ground: Ground) -> object:
    return [locate(ground.access(), str(ground.docs / name)) for name in ("sub/a.md", "neighbour.md", "sub")]


def addressed(ground: Ground) -> object:
    return addresses(ground.access(), [LocalSource(kind="local", path=str(ground.docs))])


#: What opens nothing, but resolves a path.
RESOLVERS = [located, addressed]
#: Everything that opens or names a local folder.
READERS = [listed, listed_in_part, read, judged, walked, walked_in_part, grepped, watched, *RESOLVERS]

"""A place that changes between its check and its use shows nothing of what a project may not read."""

from __future__ import annotations

from collections.abc import Callable
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
from schemas.errors import FileError, FolderGone, SourceError
from schemas.queries.grep import Grep
from tests.helpers import HELPERS
from worker.ignore import EVERYTHING, Rules
from worker.machine.handles import identity_of, open_real
from worker.machine.paths import real_path
from worker.sources import local, pages
from worker.sources.kind import ContentAccess, SourceOptions
from worker.sources.local import LocalFolder, OpenedPlace
from worker.sources.local_walk import WalkedFolder, walk
from worker.sources.registry import locate, open_source
from worker.state.access import grants
from worker.state.pool import Pool
from worker.upkeep.watched_folder import WatchedFolder

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
        options = SourceOptions(auth, home or self.root / "home", [self.root], None, None, None)
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


@pytest.fixture
def ground(pool: Pool, tmp_path: Path) -> Ground:
    made = Ground(pool, tmp_path, f"p-{uuid4().hex}")
    for folder, text in ((made.docs, "mine"), (made.secret, SECRET)):
        (folder / "sub").mkdir(parents=True)
        for name in ("a.md", "sub/a.md", "sub/.gitignore"):
            (folder / name).write_text(text)
        (folder / f"{text.split()[-1]}.md").write_text(text)
    grants.add(pool, made.project, str(made.docs))
    return made


# --- a grant is for a directory, not for whatever its path leads to


def test_a_link_that_takes_a_granted_place_grants_nothing(ground: Ground) -> None:
    folder = ground.opened()
    ground.swap()
    for refused in (folder.check, ground.opened):
        with pytest.raises(FolderGone) as failed:
            refused()
        # the message names both
        assert repr(str(ground.docs)) in str(failed.value)
        assert repr(str(ground.secret)) in str(failed.value)
    assert locate(ground.access(), str(ground.docs / "a.md")) == []
    ground.swap_back()
    folder.check()
    ground.opened().check()


@pytest.mark.parametrize("above", ["mine", "mine/docs"])
def test_a_link_above_a_place_grants_nothing(ground: Ground, above: str) -> None:
    (ground.root / "theirs" / "docs").mkdir()
    place = ground.root / above
    place.rename(ground.root / "away")
    place.symlink_to(ground.root / "theirs")
    with pytest.raises(SourceError):
        ground.opened()


def test_a_link_that_is_swapped_on_purpose_goes_on(ground: Ground) -> None:
    releases, current = ground.root / "releases", ground.root / "current"
    for number in (1, 2):
        (releases / str(number)).mkdir(parents=True)
        (releases / str(number) / f"{number}.md").touch()
    current.symlink_to("releases/1")
    for granted, may_follow in ((current, False), (releases, True)):
        grants.add(ground.pool, ground.project, str(granted))
        folder = ground.opened(current)
        for target, names in (("releases/2", ["2.md"]), ("releases/1", ["1.md"])):
            current.unlink()
            current.symlink_to(target)
            if may_follow or target == "releases/1":
                folder.check()
                assert [entry.name for entry in folder.list(None).entries] == names
            else:
                with pytest.raises(FolderGone, match=r"releases/2' now, and led to '.*releases/1' when"):
                    folder.check()


def test_a_grant_that_is_made_again_is_for_the_new_place(ground: Ground) -> None:
    ground.swap()
    assert grants.add(ground.pool, ground.project, str(ground.docs))
    assert not grants.add(ground.pool, ground.project, str(ground.docs))
    assert ground.opened().read(b"a.md", 1000).data == SECRET.encode()
    ground.swap_back()
    with pytest.raises(FolderGone):
        ground.opened()


def test_a_grant_of_an_earlier_release_is_for_the_place_of_its_first_use(ground: Ground) -> None:
    with ground.pool.connection() as connection:
        connection.execute("UPDATE source_grant SET real_place = NULL WHERE project_id = %s", (ground.project,))
    ground.opened().check()
    [grant] = grants.page(ground.pool, ground.project)
    assert grant.real_place == str(ground.docs)
    ground.swap()
    with pytest.raises(FolderGone):
        ground.opened()


def test_a_place_that_is_missing_when_it_is_granted_is_no_link_later(ground: Ground) -> None:
    later = ground.root / "mine" / "later"
    grants.add(ground.pool, ground.project, str(later))
    later.symlink_to(ground.secret)
    with pytest.raises(FolderGone):
        ground.opened(later)
    later.unlink()
    later.mkdir()
    ground.opened(later).check()


def test_a_message_tells_no_more_than_the_link_itself(ground: Ground) -> None:
    (ground.secret / "hidden").symlink_to(ground.root / "hidden-target")
    ground.docs.rename(ground.root / "away")
    for target in ("theirs/hidden", "theirs/missing"):
        ground.docs.symlink_to(ground.root / target)
        with pytest.raises(FolderGone) as failed:
            ground.opened()
        assert str(ground.root / target) in str(failed.value)
        assert "hidden-target" not in str(failed.value)
        ground.docs.unlink()
    for never_granted in (ground.secret, ground.docs / ".." / ".." / "theirs", ground.root / "nothing"):
        with pytest.raises(FolderGone, match=f"'{never_granted}' does not exist, or project"):
            ground.opened(never_granted)


# --- what is opened is what was checked


def swapped_after(ground: Ground, monkeypatch: pytest.MonkeyPatch, below: str) -> None:
    """Swap the link in once the path was resolved, or, `below` the folder, once its directory was opened."""
    swapped = Event()

    def then_swapped(act: Callable[..., Any]) -> Callable[..., Any]:
        def swapping(*values: Any) -> Any:
            result = act(*values)
            if not swapped.is_set() and (below or str(values[0]) == str(ground.docs)):
                swapped.set()
                ground.swap(below)
            return result

        return swapping

    if below:
        monkeypatch.setattr(local, "open_real", then_swapped(open_real))
    else:
        monkeypatch.setattr(local, "real_path", then_swapped(real_path))


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
    # the neighbour's rules leave out what this project has
    (ground.secret / "sub" / ".gitignore").write_text("*.md")
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
    folder = WatchedFolder(place, Rules(), None, lambda: None)
    with suppress(*REFUSALS):
        assert folder.ready.wait(30) or folder.ended.is_set()
    folder.close()
    return sorted(folder._watched)


def located(ground: Ground) -> object:
    return [locate(ground.access(), str(ground.docs / name)) for name in ("sub/a.md", "neighbour.md", "sub")]


#: Everything that opens a local folder.
READERS = [listed, listed_in_part, read, judged, walked, walked_in_part, grepped, watched, located]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("below", ["", "sub"])
def test_a_link_that_is_swapped_in_after_the_check_shows_nothing(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, reader: Callable[[Ground], object], below: str
) -> None:
    swapped_after(ground, monkeypatch, below)
    shown: object = None
    with suppress(*REFUSALS):
        shown = reader(ground)
    assert ground.docs.joinpath(below).is_symlink() or reader is located
    text = repr(shown)
    assert SECRET not in text
    assert "neighbour.md'" not in text
    if reader is not located:
        assert "theirs" not in text

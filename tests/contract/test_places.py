"""A place that changes between its check and its use shows nothing of what a project may not read."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest

from api.cli import checks
from schemas.content.source import LocalSource
from schemas.errors import FolderGone, SourceError
from tests.chaos.full import IS_FULL
from tests.contract.places import READERS, REFUSALS, RESOLVERS, SECRET, Ground, located, new_ground, watched
from tests.contract.swaps import Swapper, in_mount_namespace
from worker.machine.handles import open_real
from worker.machine.paths import real_path
from worker.sources import local
from worker.sources.registry import addresses, locate
from worker.state.access import grants
from worker.state.pool import Pool


@pytest.fixture
def ground(pool: Pool, tmp_path: Path) -> Ground:
    return new_ground(pool, tmp_path)


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


def test_a_grant_without_a_real_place_is_for_the_place_of_its_first_use(ground: Ground) -> None:
    with ground.pool.connection() as connection:
        connection.execute("UPDATE source_grant SET real_place = NULL WHERE project_id = %s", (ground.project,))
    ground.opened().check()
    [grant] = grants.page(ground.pool, ground.project)
    assert grant.real_place == str(ground.docs)
    ground.swap()
    with pytest.raises(FolderGone):
        ground.opened()


def test_an_old_grant_whose_link_keeps_changing_stops_no_other(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    grants.add(ground.pool, ground.project, str(ground.root / "restless"))
    with ground.pool.connection() as connection:
        connection.execute("UPDATE source_grant SET real_place = NULL WHERE place LIKE '%/restless'")
    monkeypatch.setattr(grants, "real_path", Mock(side_effect=FolderGone("it keeps changing")))
    ground.opened().check()


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


def test_a_grant_shows_where_its_place_led_and_where_it_leads(ground: Ground) -> None:
    grants.add(ground.pool, ground.project, "s3://shelf/docs")

    def shown() -> list[tuple[str | None, str | None]]:
        return [(grant.real_place, grant.leads_to) for grant in grants.page(ground.pool, ground.project)]

    docs = str(ground.docs)
    assert shown() == [(docs, docs), (None, None)]
    ground.swap()
    assert shown() == [(docs, str(ground.secret)), (None, None)]


def test_doctor_names_a_grant_that_leads_to_a_place_that_its_project_may_not_read(
    ground: Ground, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = {"AUTH": "on", "DATABASE_URL": database_url}
    monkeypatch.setattr(checks, "environment", lambda _: stack)
    grants.add(ground.pool, ground.project, str(ground.root / "missing"))

    def told() -> list[str]:
        found = checks.grants_elsewhere(checks.settings_of(ground.root))
        return [each.detail for each in found if each.what == f"grant of {ground.docs}" and not each.is_well]

    assert told() == []
    ground.swap()
    [detail] = told()
    assert f"it led to {ground.docs}, and leads to {ground.secret} now" in detail
    assert f"`foldex grants remove {ground.project} {ground.docs}`" in detail
    # grants mean nothing then
    stack["AUTH"] = "off"
    assert told() == []
    stack["AUTH"] = "on"
    # a link that is swapped on purpose
    grants.add(ground.pool, ground.project, str(ground.secret))
    assert told() == []


#: Grants from before spellings were checked, with spellings by which they are removed.
OLD_GRANTS = {
    "s3://shelf/a/../b/": ["s3://shelf/a/../b/", "s3://shelf/a/../b"],
    "s3://shelf/a//b/": ["s3://shelf/a//b/", "s3://shelf/a//b"],
    "s3://x/": ["s3://x/", "s3://x"],
    "/srv/../docs": ["/srv/../docs"],
    "/docs": ["/docs", "/docs/", "/srv/../docs"],
    "docs": ["docs"],
}


@pytest.mark.parametrize(("place", "spelling"), [(old, new) for old, each in OLD_GRANTS.items() for new in each])
def test_each_grant_with_an_unchecked_spelling_can_be_removed(ground: Ground, place: str, spelling: str) -> None:
    added = "INSERT INTO source_grant (project_id, place) VALUES (%s, %s)"
    with ground.pool.connection() as connection:
        connection.execute(added, (ground.project, place))
    for other in ("", "/", "s3://shelf/a", "s3://shelf", str(ground.root), f"{place}x"):
        assert grants.remove(ground.pool, ground.project, other) is None
    assert grants.remove(ground.pool, ground.project, spelling) == place
    assert [grant.place for grant in grants.page(ground.pool, ground.project)] == [str(ground.docs)]


@pytest.mark.parametrize("auth", ["on", "off"])
def test_an_address_never_shows_where_a_place_leads_that_may_not_be_read(ground: Ground, auth: str) -> None:
    outside = ground.root.parent / f"outside-{ground.root.name}"
    target = ground.secret if auth == "on" else outside
    link = ground.docs / "link"
    link.symlink_to("sub")
    paths = (ground.docs, ground.docs / "sub", link, ground.docs / "missing")
    sources = [LocalSource(kind="local", path=str(path)) for path in paths]
    real = [ground.docs, ground.docs / "sub", ground.docs / "sub", ground.docs / "missing"]
    assert addresses(ground.access(auth=auth), sources) == [*map(str, real)]
    ground.docs.rename(ground.root / "away")
    ground.docs.symlink_to(target)
    # a link below a grant is not remembered
    assert addresses(ground.access(auth=auth), sources) == [*map(str, paths)]
    ground.docs.unlink()
    ground.docs.symlink_to(ground.root / "away")
    grants.add(ground.pool, ground.project, str(ground.root / "away"))
    away = ground.root / "away"
    assert addresses(ground.access(auth=auth), sources) == [
        *map(str, (away, away / "sub", away / "sub", away / "missing"))
    ]


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


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("below", ["", "sub"])
def test_a_link_that_is_swapped_in_after_the_check_shows_nothing(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, reader: Callable[[Ground], object], below: str
) -> None:
    swapped_after(ground, monkeypatch, below)
    shown: object = None
    with suppress(*REFUSALS):
        shown = reader(ground)
    assert ground.docs.joinpath(below).is_symlink() or reader in RESOLVERS
    text = repr(shown)
    assert SECRET not in text
    assert "neighbour.md'" not in text
    if reader is not located:
        assert "theirs" not in text


# --- everything at once


@pytest.mark.skipif(sys.platform != "linux", reason="run on Linux")
def test_no_reader_sees_the_neighbour_while_everything_is_swapped(ground: Ground) -> None:
    seconds = 20.0 if IS_FULL else 4.0
    stop, seen = Event(), Counter[str]()
    closed = [ground.root / "home", ground.root / "home" / "objects"]
    for place in closed:
        place.mkdir()
        (place / "neighbour.md").write_text(SECRET)

    def read_on(readers: Sequence[Callable[[Ground], object]]) -> None:
        while not stop.is_set():
            for reader in readers:
                with suppress(*REFUSALS):
                    text = repr(reader(ground))
                    assert SECRET not in text, reader
                    assert reader is located or "neighbour" not in text, reader
                    assert str(ground.secret) not in text, reader
                    seen[reader.__name__] += 1

    def everything_at_once() -> None:
        with ExitStack() as handles, ThreadPoolExecutor(4) as threads:
            swapper = Swapper(ground.docs, ground.secret, ("sub", "a.md"), closed, Random(1), handles)
            swapping = threads.submit(swapper.run, stop)
            # a watch waits for half a second each time
            others = [reader for reader in READERS if reader is not watched]
            reading = [threads.submit(read_on, readers) for readers in (others[::2], others[1::2], [watched])]
            stop.wait(seconds)
            stop.set()
            for each in (swapping, *reading):
                each.result()
        assert swapper.rounds > 100
        assert swapper.mounts or os.geteuid() != 0

    in_mount_namespace(everything_at_once)
    assert {reader.__name__ for reader in READERS} <= {*seen}
    # once all is calm, the folder is read as ever
    folder = ground.opened()
    folder.check()
    assert {folder.read(key, 100).data for key in (b"a.md", b"sub/a.md", b"mine.md")} == {b"mine"}

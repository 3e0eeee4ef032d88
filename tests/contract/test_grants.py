"""A project reads what lies below a grant and below a root of the installation, whichever of them lies higher."""

from __future__ import annotations

from itertools import chain, combinations, product
from pathlib import Path
from unittest.mock import Mock
from uuid import uuid4

import pytest

from schemas.content.source import LocalSource
from schemas.errors import SourceError, SourceRefused
from tests.helpers import HELPERS
from worker.ignore import EVERYTHING
from worker.machine.paths import is_below
from worker.sources.kind import ContentAccess, SourceOptions
from worker.sources.local import LocalFolder
from worker.sources.registry import open_source
from worker.state.access import grants
from worker.state.pool import Pool


def one_or_two(places: list[Path]) -> list[tuple[Path, ...]]:
    return [*chain(combinations(places, 1), combinations(places, 2))]


def is_in(path: Path, folders: tuple[Path, ...]) -> bool:
    return any(path.resolve().is_relative_to(folder.resolve()) for folder in folders)


def test_a_project_reads_what_lies_below_a_grant_and_a_root(pool: Pool, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "a/b", "a/b/c", "ab", "d")]
    for folder in folders:
        folder.mkdir()
    (tmp_path / "link").symlink_to("a/b")
    places = [*folders, tmp_path / "link"]
    for granted in one_or_two(places):
        project = f"p-{uuid4().hex}"
        for place in granted:
            assert grants.add(pool, project, str(place))
        for roots in one_or_two(places):
            readable = grants.readable(grants.folders(pool, project), [str(root.resolve()) for root in roots])
            for path in places:
                expected = is_in(path, granted) and is_in(path, roots)
                found = any(is_below(str(path.resolve()), place) for place in readable)
                assert found == expected, (granted, roots, path)


def test_a_prefix_of_a_bucket_is_granted_with_what_lies_below_it_only(pool: Pool) -> None:
    prefixes = ["s3://one/", "s3://one/a/", "s3://one/a/b/", "s3://one/ab/", "s3://one1/a/"]
    for granted, place in product(prefixes, prefixes):
        project = f"p-{uuid4().hex}"
        grants.add(pool, project, granted)
        assert grants.may_read_below(pool, project, place) == place.startswith(granted), (granted, place)


def opened(pool: Pool, path: Path, *, home: Path, roots: list[Path], project: str | None = None) -> LocalFolder:
    """A folder that a project opens; without a project, as everybody may."""
    options = SourceOptions("on" if project else "off", home, roots, None, None)
    access = ContentAccess(project or "p", options, lambda: pool, Mock(), HELPERS)
    folder = open_source(access, LocalSource(kind="local", path=str(path)), EVERYTHING)
    assert isinstance(folder, LocalFolder)
    return folder


@pytest.mark.parametrize("home", ["home", "link-to-home"])
def test_the_place_of_all_content_is_never_open_whatever_leads_there(pool: Pool, tmp_path: Path, home: str) -> None:
    (tmp_path / "home" / "objects").mkdir(parents=True)
    (tmp_path / "home-made").mkdir()
    for folder in ("home/objects", "home-made"):
        (tmp_path / folder / "a.md").write_text("text")
    (tmp_path / "link-to-home").symlink_to("home")
    (tmp_path / "link-into").symlink_to("home/objects")
    for name in ("home", "home/objects", "link-to-home", "link-to-home/objects", "link-into"):
        with pytest.raises(SourceRefused, match="FOLDEX_HOME"):
            opened(pool, tmp_path / name, home=tmp_path / home, roots=[tmp_path]).check()
    for root in (tmp_path, Path("/")):
        page = opened(pool, tmp_path, home=tmp_path / home, roots=[root]).list(None)
        assert [entry.path for entry in page.entries] == ["home-made/a.md", "link-into", "link-to-home"]
        page = opened(pool, tmp_path / "home-made", home=tmp_path / home, roots=[root]).list(None)
        assert [entry.path for entry in page.entries] == ["a.md"]


def test_a_link_that_leaves_a_grant_later_is_not_followed(pool: Pool, tmp_path: Path) -> None:
    for name in ("granted/in", "granted/also", "other"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / f"{Path(name).name}.md").write_text("text")
    project, link = f"p-{uuid4().hex}", tmp_path / "granted" / "link"
    link.symlink_to("in")
    grants.add(pool, project, str(tmp_path / "granted"))
    folder = opened(pool, link, home=tmp_path / "home", roots=[tmp_path], project=project)
    for target, paths in (("in", ["in.md"]), ("also", ["also.md"]), ("../other", None), ("in", ["in.md"])):
        link.unlink()
        link.symlink_to(target)
        if paths is None:
            with pytest.raises(SourceError):
                folder.check()
        else:
            folder.check()
            assert [entry.path for entry in folder.list(None).entries] == paths

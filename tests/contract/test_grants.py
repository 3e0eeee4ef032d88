"""A project reads what lies below a grant and below a root of the installation, whichever of them lies higher."""

from __future__ import annotations

from itertools import chain, combinations, product
from pathlib import Path
from uuid import uuid4

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
            readable = grants.folders(pool, project, roots)
            for path in places:
                expected = is_in(path, granted) and is_in(path, roots)
                assert grants.is_below(str(path), readable) == expected, (granted, roots, path)


def test_a_prefix_of_a_bucket_is_granted_with_what_lies_below_it_only(pool: Pool) -> None:
    prefixes = ["s3://one/", "s3://one/a/", "s3://one/a/b/", "s3://one/ab/", "s3://one1/a/"]
    for granted, place in product(prefixes, prefixes):
        project = f"p-{uuid4().hex}"
        grants.add(pool, project, granted)
        assert grants.may_read_below(pool, project, place) == place.startswith(granted), (granted, place)

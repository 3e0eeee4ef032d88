"""One cluster for all chaos tests: what is broken in it is whole again before the next test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos import corpus
from tests.chaos.cluster import Cluster, cluster
from tests.chaos.proof import Case, Result, case

#: Modules that take minutes; the others fill the gaps behind them.
LONG = ["test_boundaries", "test_processes", "test_monkey", "test_paused", "test_stopped", "test_frozen"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long modules, for the last one would run alone; and leave time to start the cluster."""

    def place(item: pytest.Item) -> int:
        if item.path.parent != Path(__file__).parent:
            return -1
        return LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG)

    items.sort(key=place)
    for item in items:
        # the first of a process starts the cluster, for which the supervisor alone is given two minutes
        if place(item) >= 0 and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where folders to index lie."""
    return tmp_path_factory.mktemp("folders")


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[Cluster]:
    """The cluster as it was started; tests ask for `here`."""
    with cluster(tmp_path_factory.mktemp("chaos"), root) as running:
        yield running


@pytest.fixture
def here(whole: Cluster) -> Iterator[Cluster]:
    """The cluster, healed after the test."""
    yield whole
    whole.calm()


@pytest.fixture
def new_case(here: Cluster, root: Path) -> Callable[..., Case]:
    """A folder of its own in a project of its own."""
    return lambda name, **options: case(here, root, name, **options)


@pytest.fixture(scope="session")
def calm(whole: Cluster, root: Path) -> Result:
    """What a run without faults makes of a folder."""
    made = case(whole, root, "calm")
    whole.wait(made.start())
    return made.result()


@pytest.fixture(scope="session")
def calm_edited(whole: Cluster, root: Path) -> Result:
    """What a run without faults makes of an edited folder."""
    made = case(whole, root, "calm-edited")
    corpus.edit(made.folder, made.mark)
    whole.wait(made.start())
    return made.result()

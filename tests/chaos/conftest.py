"""One cluster for all chaos tests of a process. Each test's faults are repaired before the next test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import corpus
from tests.chaos.cluster import Cluster, cluster
from tests.chaos.proof import Case, Result, case


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow time to start the cluster, which the first test of a process does."""
    for item in items:
        # the supervisor alone may take two minutes
        if item.path.parent == Path(__file__).parent and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what tests have counted, such as requests."""
    for report in terminalreporter.getreports("passed"):
        if report.when == "call":
            for name, value in report.user_properties:
                terminalreporter.write_line(f"{report.nodeid}: {name} {value}")


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the folders to index."""
    return tmp_path_factory.mktemp("folders")


@pytest.fixture(scope="package")
def whole(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[Cluster]:
    """The cluster as it was started. Tests use `here`."""
    with cluster(tmp_path_factory.mktemp("chaos"), root) as running:
        yield running


@pytest.fixture
def here(whole: Cluster) -> Iterator[Cluster]:
    """The cluster, repaired after the test."""
    yield whole
    whole.calm()


@pytest.fixture
def new_case(here: Cluster, root: Path) -> Callable[..., Case]:
    """Creates a separate folder in a separate project."""
    return lambda name, **options: case(here, root, name, **options)


@pytest.fixture(scope="package")
def calm(whole: Cluster, root: Path) -> Result:
    """The result of a run without faults on a folder."""
    made = case(whole, root, "calm")
    whole.wait(made.start())
    return made.result()


@pytest.fixture(scope="package")
def calm_edited(whole: Cluster, root: Path) -> Result:
    """The result of a run without faults on an edited folder."""
    made = case(whole, root, "calm-edited")
    corpus.edit(made.folder, made.mark)
    whole.wait(made.start())
    return made.result()

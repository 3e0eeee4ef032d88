"""The resources of a worker, and a folder for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.integration.steps.forest import Forest
from tests.integration.steps.lagging import LONG_AGO, Late
from tests.integration.steps.site import FILES, Site, resources_in, write
from worker.resources import Resources


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory, database_url: str) -> Iterator[Resources]:
    made = resources_in(tmp_path_factory.mktemp("steps") / "home", database_url)
    yield made
    made.pool.close()


@pytest.fixture
def site(resources: Resources) -> Site:
    """A folder that is listed but not indexed yet."""
    folder = resources.home.parent / uuid4().hex
    folder.mkdir()
    for number in range(FILES):
        write(folder, number, f"Before anything else, file {number} tells of apples.")
    made = Site(resources, folder)
    made.list_folder()
    return made


@pytest.fixture
def late(site: Site) -> Late:
    """The same folder, of which no vector was asked for yet."""
    for number in range(FILES):
        os.utime(site.folder / f"{number}.md", (LONG_AGO, LONG_AGO))
    return Late(site)


@pytest.fixture
def forest(resources: Resources) -> Forest:
    """A folder without texts yet, whose tool may get a tree."""
    folder = resources.home.parent / uuid4().hex
    folder.mkdir()
    return Forest(Site(resources, folder))


@pytest.fixture
def nobody_else(resources: Resources) -> Iterator[None]:
    """Close the open tasks of other tests, and end their workers' leases."""
    yield
    with resources.pool.connection() as connection:
        connection.execute("UPDATE search_index_task SET status = 'cancelled' WHERE status IN ('pending', 'indexing')")
        connection.execute("DELETE FROM file_lease")
        connection.execute("DELETE FROM search_index_change")
        connection.execute("UPDATE search_index SET checked_at = now()")

"""User requests while a run is in progress and one of its processes dies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import corpus
from tests.chaos.cluster import Cluster, client_of
from tests.chaos.proof import INDEX, Case, Result, case, prove
from tests.service import eventually


@pytest.fixture(scope="module")
def asked(whole: Cluster, root: Path, calm: Result, calm_edited: Result) -> dict[str, Case]:
    """Two runs that get requests while they embed, and are then killed."""
    cases = {name: case(whole, root, name) for name in ("siblings", "behind")}
    holds = {name: whole.embeddings.holds.add("embeddings", made.mark) for name, made in cases.items()}
    first = {name: made.start() for name, made in cases.items()}
    for hold in holds.values():
        eventually(lambda hold=hold: bool(hold.arrived), 20, whole.logs)  # type: ignore[misc] # mypy infers no default's type
    cases["siblings"].start()
    whole.delete(first["siblings"])
    corpus.edit(cases["behind"].folder, cases["behind"].mark)
    for _ in range(3):
        assert whole.ask(first["behind"], "reindex")["rerun"]
    for hold in holds.values():
        whole.kill_child(client_of(hold.arrived[0], whole.embeddings.url))
        hold.release()
    return cases


def test_deleting_one_of_two_tools_leaves_the_other_whole(asked: dict[str, Case], calm: Result) -> None:
    prove(asked["siblings"], calm)


def test_what_changes_behind_the_walk_is_picked_up_by_one_more_task(
    here: Cluster, asked: dict[str, Case], calm_edited: Result
) -> None:
    prove(asked["behind"], calm_edited)
    assert len(here.rows(f"SELECT id FROM search_index_task WHERE index_id = {INDEX}", asked["behind"].tool)) == 2

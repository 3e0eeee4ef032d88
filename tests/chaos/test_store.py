"""A vector store that is busy, fails, does not answer, loses rows or refuses them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from tests.chaos import corpus
from tests.chaos.cluster import WORKERS, Cluster
from tests.chaos.proof import Case, Result, prove, prove_vectors
from tests.contract.stores import of_file
from tests.service import Service, another_api, eventually
from worker.state.index.tasks import LEASE

NewCase = Callable[..., Case]

#: Back-pressure; failures before and after the write was applied; connections dropped before and after.
FAULTS = ((429, False), (503, False), (503, True), (0, False), (0, True))


def test_writes_fail_in_every_way(here: Cluster, new_case: NewCase, calm: Result) -> None:
    cases = [new_case("store-fails") for _ in FAULTS]
    holds = [here.vectors.holds.add("upsert", made.project) for made in cases]
    for made in cases:
        made.start()
    for hold in holds:
        eventually(lambda hold=hold: bool(hold.arrived), 20, here.logs)  # type: ignore[misc] # mypy infers no default's type
    for status, applied in FAULTS:
        here.vectors.fail_next(status, applied=applied, retry_after=1 if status == 429 else None)
    for hold in holds:
        hold.release()
    for made in cases:
        prove(made, calm)


def test_a_store_that_takes_longer_than_a_lease_lasts(here: Cluster, new_case: NewCase, calm: Result) -> None:
    made = new_case("store-slow")
    hold = here.vectors.holds.add("upsert", made.project)
    made.start()
    eventually(lambda: bool(hold.arrived), 20, here.logs)
    began = time.monotonic()
    eventually(lambda: time.monotonic() - began > LEASE.total_seconds() + 1, 20)
    hold.release()
    prove(made, calm)


def test_deletes_that_fail_are_repeated(here: Cluster, new_case: NewCase, calm_edited: Result) -> None:
    made = new_case("delete-fails")
    here.wait(made.start())
    corpus.edit(made.folder, made.mark)
    hold = here.vectors.holds.add("delete", made.project)
    made.start()
    eventually(lambda: bool(hold.arrived), 20, here.logs)
    here.vectors.fail_next(503, count=3)
    hold.release()
    prove(made, calm_edited, in_vain=0)


def test_a_refused_row_fails_its_file_only(here: Cluster, new_case: NewCase, calm: Result) -> None:
    made = new_case("refused")
    refused = made.folder / "note-05.md"
    refused.unlink()
    here.wait(made.start())
    ((namespace,),) = here.rows(
        "SELECT namespace FROM search_index i JOIN search_tool s ON s.index_id = i.id WHERE s.id = %s", made.tool
    )
    form = here.form(namespace)
    # the store knows the file by hashes only: the one that no other file of its type has
    terms, others = (str(form(of_file(name))["file_terms"]) for name in (refused.name, "note-06.md"))
    here.vectors.refuse((set(re.findall(r"[\w-]{8}", terms)) - set(re.findall(r"[\w-]{8}", others))).pop())
    corpus.write(refused, corpus.note(made.mark, "05"))
    made.start()
    here.wait(made.tool)
    outcomes = {path: (status, reason) for path, status, reason in made.result().outcomes}
    assert outcomes.pop("note-05.md") == ("failed", "store_refused")
    assert outcomes == {path: (status, reason) for path, status, reason in calm.outcomes if path != "note-05.md"}
    prove_vectors(here, made.tool)
    here.vectors.refuse(None)
    made.start()
    prove(made, calm, in_vain=0)


def test_a_namespace_deleted_from_outside_is_rebuilt(here: Cluster, new_case: NewCase, calm: Result) -> None:
    made = new_case("vanished")
    here.wait(made.start())
    ((namespace,),) = here.rows(
        "SELECT namespace FROM search_index i JOIN search_tool s ON s.index_id = i.id WHERE s.id = %s", made.tool
    )
    with here.vectors.lock:
        del here.vectors.namespaces[namespace]
    made.start()
    prove(made, calm, in_vain=0)


def test_an_index_changes_the_form_of_its_text_while_workers_die(
    here: Cluster, new_case: NewCase, calm: Result
) -> None:
    made = new_case("form")
    with another_api(here, VECTOR_STORE_TEXT="plain") as plain:
        made.tool = plain.local_tool(made.folder, project=made.project)
        here.wait(made.tool)
        before = index_of(here, made)
        hold = here.vectors.holds.add("upsert", made.project)
        here.ask(made.tool, "reindex", {"full": True})
        for victim in WORKERS:
            eventually(lambda: bool(hold.arrived), 30, here.logs)
            old = here.kill(victim)
            hold.arrived.clear()
            here.restarted(victim, old)
        hold.release()
        # the readable index answers until the other one is ready
        eventually(lambda: answers(plain, made, calm) and index_of(here, made) != before, 120, here.logs)
    prove(made, calm, in_vain=0)


def index_of(here: Cluster, made: Case) -> tuple[object, ...]:
    """The index of a tool, and the key of its text."""
    query = "SELECT i.id, i.text_key FROM search_tool s JOIN search_index i ON i.id = s.index_id WHERE s.id = %s"
    (row,) = here.rows(query, made.tool)
    return row


def answers(api: Service, made: Case, expected: Result) -> bool:
    """Check that a search finds what a calm run finds."""
    wanted = {path for path, _, text in expected.chunks if "birds" in text}
    assert {hit["file_path"] for hit in api.query(made.tool, "birds", mode="keyword", top_k=100)} >= wanted
    return True

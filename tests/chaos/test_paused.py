"""A process that is paused past the end of its lease, or of its index, does no damage when it resumes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from signal import SIGCONT, SIGSTOP

from api.stack.processes import running
from tests.chaos import corpus
from tests.chaos.cluster import WORKERS, Cluster, client_of, second_worker
from tests.chaos.full import only_in_full
from tests.chaos.proof import Case, Result, make_late_writes_impossible, prove, prove_vectors
from tests.chaos.test_messages import in_hand
from tests.fakes.hold import Hold
from tests.service import eventually

NewCase = Callable[..., Case]

#: Longer than a worker waits twice for a connection, and than some fail-overs of Postgres take.
AWAY_SECONDS = 60.0


def put_to_sleep(here: Cluster, hold: Hold) -> int:
    """Stop the process that waits for a held answer. The answer arrives while it is stopped."""
    eventually(lambda: bool(hold.arrived), 20, here.logs)
    server = here.embeddings.url if hold.kind == "embeddings" else here.vectors.url
    pid = client_of(hold.arrived[0], server)
    os.kill(pid, SIGSTOP)
    hold.release()
    return pid


def wake(here: Cluster, made: Case, send: Callable[[], None]) -> None:
    """Let the resumed processes act while the task is still open, then close it."""
    task = here.task(made.tool)[0]
    send()
    here.gates.open("close", made.project)
    eventually(lambda: not in_hand(here, task), 30, here.logs)


def all_done(made: Case) -> bool:
    outcomes = [outcome for _, outcome, _ in made.result().outcomes]
    return bool(outcomes) and set(outcomes) <= {"indexed", "skipped", "failed"}


def test_an_owner_that_comes_back_after_its_lease_makes_nothing_live(
    here: Cluster, new_case: NewCase, calm: Result
) -> None:
    made = new_case("asleep")
    # The task stays open, so that only the lease shows the paused process that it is too late.
    here.gates.close("close", made.project)
    # Only the process that has read the old text can send it to the provider.
    old = f"What {made.mark} said of old."
    hold = here.embeddings.holds.add("embeddings", old, after=True)
    right = (made.folder / "note-03.md").read_text()
    corpus.write(made.folder / "note-03.md", f"# Old\n\n{old}\n")
    made.start()
    pid = put_to_sleep(here, hold)
    corpus.write(made.folder / "note-03.md", right)
    eventually(lambda: all_done(made), 40, here.logs)
    # of a file whose words were written before their vectors, the text that was read stays until the next run
    found = made.result().chunks
    assert [chunk for chunk in found if chunk not in calm.chunks] in (
        [],
        [("note-03.md", 0, "# Old\n\nWhat MARK said of old.")],
    )
    wake(here, made, lambda: os.kill(pid, SIGCONT))
    assert made.result().chunks == found
    made.start()
    prove(made, calm)


@only_in_full  # test_stopped stops processes while others do their work
def test_a_whole_worker_that_sleeps_through_its_leases_loses_and_doubles_nothing(
    here: Cluster, new_case: NewCase, calm: Result
) -> None:
    made = new_case("worker-asleep")
    here.gates.close("close", made.project)
    hold = here.embeddings.holds.add("embeddings", made.mark, after=True)
    # Each queue has another worker, so that the sweep continues whichever one is paused.
    others = [second_worker(here, queue) for queue in ("fast", "bulk")]
    with running(others[0], here.home), running(others[1], here.home):
        made.start()
        eventually(lambda: bool(hold.arrived), 20, here.logs)
        name = here.holder(hold.arrived[0], *WORKERS, *(other.name for other in others))
        here.send(name, SIGSTOP)
        hold.release()
        eventually(lambda: all_done(made), 40, here.logs)
        assert made.result().chunks == calm.chunks
        wake(here, made, lambda: here.send(name, SIGCONT))
        prove(made, calm)


def test_a_new_index_is_safe_from_a_process_that_slept_through_the_end_of_the_old_one(
    here: Cluster, new_case: NewCase, calm: Result
) -> None:
    made = new_case("deleted")
    hold = here.vectors.holds.add("upsert", made.project)
    old = made.start()
    old_task = here.task(old)[0]
    pid = put_to_sleep(here, hold)
    here.delete(old)
    made.start()
    here.wait(made.tool)
    assert made.result() == calm
    os.kill(pid, SIGCONT)
    eventually(lambda: not in_hand(here, old_task), 30, here.logs)
    prove(made, calm)
    make_late_writes_impossible(here)
    eventually(lambda: len(namespaces(here, made.project)) == 1, 30, lambda: f"{namespaces(here, made.project)}")


def test_a_process_that_slept_through_the_purge_of_its_index_leaves_no_namespace(
    here: Cluster, new_case: NewCase
) -> None:
    made = new_case("purged")
    hold = here.vectors.holds.add("upsert", made.project)
    tool = made.start()
    eventually(lambda: bool(hold.arrived), 20, here.logs)
    pid = client_of(hold.arrived[0], here.vectors.url)
    os.kill(pid, SIGSTOP)
    here.delete(tool)

    def purged() -> bool:
        make_late_writes_impossible(here)
        return not here.rows("SELECT id FROM search_index WHERE project_id = %s", made.project)

    eventually(purged, 40, here.logs)
    assert namespaces(here, made.project) == []
    hold.release()
    eventually(lambda: namespaces(here, made.project) != [], 10)
    os.kill(pid, SIGCONT)
    eventually(lambda: namespaces(here, made.project) == [], 30, here.logs)


def test_a_process_that_slept_through_a_cancel_writes_nothing(here: Cluster, new_case: NewCase, calm: Result) -> None:
    made = new_case("cancelled")
    hold = here.embeddings.holds.add("embeddings", made.mark, after=True)
    made.start()
    cancelled = here.task(made.tool)[0]
    pid = put_to_sleep(here, hold)
    assert here.ask(made.tool, "cancel")["status"] == "cancelled"
    # words that did not wait for the held answer stay
    before = made.result().chunks
    os.kill(pid, SIGCONT)
    eventually(lambda: not in_hand(here, cancelled), 30, here.logs)
    prove_vectors(here, made.tool, complete=False)
    assert made.result().chunks == before
    assert not any(here.vector_ids(name) for name in namespaces(here, made.project))
    made.start()
    prove(made, calm)


def namespaces(here: Cluster, project: str) -> list[str]:
    with here.vectors.lock:
        return [name for name in here.vectors.namespaces if f"project_{project}_" in name]


@only_in_full
def test_what_the_provider_answers_while_postgres_is_away_is_not_paid_again(
    here: Cluster, new_case: NewCase, calm: Result
) -> None:
    made = new_case("postgres-away")
    hold = here.embeddings.holds.add("embeddings", made.mark, after=True)
    made.start()
    eventually(lambda: bool(hold.arrived), 20, here.logs)
    here.send("postgres", SIGSTOP)
    hold.release()
    time.sleep(AWAY_SECONDS)
    here.send("postgres", SIGCONT)
    # another worker may take up a file in the moment in which Postgres is back; all twelve texts were paid again before
    prove(made, calm, in_vain=3)

"""When an object that no node refers to is given up, and by whom it can still be kept; directly on the rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from schemas.errors import Conflict
from worker.resources import Resources
from worker.state.content import orphans
from worker.state.pool import Pool

NOW, HOUR = timedelta(0), timedelta(hours=1)


@pytest.fixture
def pool(resources: Resources) -> Iterator[Pool]:
    yield resources.pool
    with resources.pool.connection() as connection:
        connection.execute("DELETE FROM content_stray")
        connection.execute("DELETE FROM upkeep WHERE name = 'strays'")


def pass_(pool: Pool, time: timedelta) -> None:
    with pool.connection() as connection:
        connection.execute("UPDATE content_stray SET due_at = due_at - %s", (time,))
        connection.execute("UPDATE upkeep SET ran_at = ran_at - %s WHERE name = 'strays'", (time,))


def can_claim(pool: Pool, *keys: str) -> bool:
    try:
        with pool.connection() as connection:
            orphans.claim(connection, keys)
    except Conflict:
        return False
    return True


def test_only_what_is_due_is_given_up_and_nobody_can_claim_it_then(pool: Pool) -> None:
    orphans.announce(pool, ["later"], HOUR)
    orphans.announce(pool, ["due"], NOW)
    assert orphans.give_up(pool, 10) == ["due"]
    assert not can_claim(pool, "due")
    assert not can_claim(pool, "due", "later")
    # the refused claim took nothing with it
    assert can_claim(pool, "later")
    assert not can_claim(pool, "later")


def test_the_longest_due_go_first_up_to_the_limit(pool: Pool) -> None:
    for key in "cab":
        orphans.announce(pool, [key], NOW)
        pass_(pool, HOUR)
    for expected in "cab":
        assert orphans.give_up(pool, 1) == [expected]
        orphans.forget(pool, [expected])
    assert orphans.give_up(pool, 1) == []


def test_what_could_not_be_deleted_is_due_again_after_a_pause(pool: Pool) -> None:
    orphans.announce(pool, ["stuck", "other"], NOW)
    orphans.postpone(pool, ["stuck"])
    assert orphans.give_up(pool, 10) == ["other"]
    pass_(pool, orphans.RETRY_AFTER)
    assert sorted(orphans.give_up(pool, 10)) == ["other", "stuck"]


def test_what_is_taken_is_due_at_once_and_keeps_its_turn(pool: Pool) -> None:
    orphans.announce(pool, ["old"], NOW)
    pass_(pool, HOUR)
    orphans.announce(pool, ["new", "untouched"], HOUR)
    assert orphans.take(pool, ["new", "unknown"]) == ["new"]
    assert orphans.take(pool, ["old"]) == ["old"]
    assert not can_claim(pool, "new")
    assert orphans.give_up(pool, 1) == ["old"]
    assert sorted(orphans.give_up(pool, 10)) == ["new", "old"]
    assert can_claim(pool, "untouched")


def test_a_run_begins_once_an_interval_and_only_if_something_is_due(pool: Pool) -> None:
    orphans.announce(pool, ["later"], HOUR)
    assert not orphans.expect_run(pool)
    pass_(pool, HOUR)
    assert orphans.expect_run(pool)
    assert not orphans.expect_run(pool)
    pass_(pool, orphans.RUN_INTERVAL - timedelta(seconds=30))
    assert not orphans.expect_run(pool)
    pass_(pool, timedelta(seconds=31))
    assert orphans.expect_run(pool)

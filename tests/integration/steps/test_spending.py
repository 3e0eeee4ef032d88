"""What a task may spend, and what it has spent; on its row."""

from __future__ import annotations

import pytest

from schemas.errors import LeaseLost
from tests.integration.steps.site import Site
from worker.state.index import tasks


def limited(site: Site, limit: int | None) -> None:
    site.do("UPDATE search_index_task SET max_cost_tokens = %s, spent_tokens = 0 WHERE id = %s", limit, site.task)


def spent(site: Site) -> tuple[int, bool]:
    ((tokens, over),) = site.do("SELECT spent_tokens, over_cost FROM search_index_task WHERE id = %s", site.task)
    return tokens, over


def test_tokens_are_spent_up_to_the_limit_and_what_passes_it_is_not_counted(site: Site) -> None:
    limited(site, 10)
    assert (tasks.spend(site.pool, site.task, 6), spent(site)) == (10, (6, False))
    assert (tasks.spend(site.pool, site.task, 5), spent(site)) == (4, (6, True))
    # once a text did not fit, the task stays over its limit, whatever fits afterwards
    assert (tasks.spend(site.pool, site.task, 4), spent(site)) == (4, (10, True))
    assert (tasks.spend(site.pool, site.task, 1), spent(site)) == (0, (10, True))


def test_tokens_that_are_given_back_are_spent_again(site: Site) -> None:
    limited(site, 10)
    tasks.spend(site.pool, site.task, 10)
    tasks.give_back(site.pool, site.task, 3)
    assert spent(site) == (7, False)
    assert (tasks.spend(site.pool, site.task, 3), spent(site)) == (3, (10, False))
    tasks.give_back(site.pool, site.task, 11)
    assert spent(site) == (0, False)


def test_a_task_without_a_limit_spends_what_it_needs(site: Site) -> None:
    limited(site, None)
    assert (tasks.spend(site.pool, site.task, 1_000_000), spent(site)) == (1_000_000, (1_000_000, False))


def test_a_task_that_has_ended_spends_nothing(site: Site) -> None:
    limited(site, 10)
    site.cancel()
    with pytest.raises(LeaseLost):
        tasks.spend(site.pool, site.task, 1)
    assert spent(site) == (0, False)

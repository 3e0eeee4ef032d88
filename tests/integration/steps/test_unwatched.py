"""Users are told if no worker has swept for long: the workers, the clock or the broker are gone or frozen."""

from __future__ import annotations

import pytest

from api.http.metrics import BacklogCollector
from api.indexers.chunks import shown_status
from api.routes import health
from tests.integration.steps.site import Site, new_site, passes
from tests.service import eventually
from worker.app import app
from worker.resources import Resources
from worker.state.index import statuses
from worker.state.open_work import UNWATCHED, UNWATCHED_SECONDS
from worker.upkeep.sweep import sweep

pytestmark = pytest.mark.usefixtures("nobody_else")

SINCE_SWEEP = "UPDATE upkeep SET ran_at = now() - make_interval(secs => %s) WHERE name = 'sweep' RETURNING 1"


@pytest.fixture
def site(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A tool whose task is open, with a sweep just now and without a broker."""
    monkeypatch.setattr(app, "send_task", lambda *_, **__: None)
    site = new_site(resources)
    assert isinstance(sweep(resources).get("noted"), int)
    return site


def warnings(site: Site) -> list[str | None]:
    """The warnings of the status, and of each task of the history."""
    shown = [statuses.newest_of_tool(site.pool, site.tool), *statuses.history(site.pool, site.tool, None, 9)]
    return [shown_status(task).warning for task in shown if task is not None]


@pytest.mark.parametrize(("since_sweep", "age", "warned"), [(31, 29, False), (29, 31, False), (31, 31, True)])
def test_an_open_task_that_nobody_watches(site: Site, since_sweep: float, age: float, warned: bool) -> None:
    assert UNWATCHED_SECONDS == 30
    passes(site.resources, age)
    assert site.do(SINCE_SWEEP, since_sweep)
    said = warnings(site)
    assert len(said) == 2
    for warning in said:
        assert (UNWATCHED in (warning or "")) == warned


def test_the_next_sweep_ends_the_warning(site: Site) -> None:
    passes(site.resources, 60)
    assert site.do(SINCE_SWEEP, 60)
    assert all(warnings(site))
    sweep(site.resources)
    assert not any(UNWATCHED in (warning or "") for warning in warnings(site))


def test_a_task_that_ended_is_not_watched(site: Site) -> None:
    site.list_folder()
    site.finish_all()
    passes(site.resources, 60)
    assert site.do(SINCE_SWEEP, 60)
    assert warnings(site) == [None, None]


def sweep_age(site: Site) -> float:
    gauges = [sample for metric in BacklogCollector(site.pool).collect() for sample in metric.samples]
    return next(sample.value for sample in gauges if sample.name == "foldex_sweep_age_seconds")


def test_monitors_are_told_although_nothing_is_open(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.list_folder()
    site.finish_all()
    # the Postgres of the tests may have started just now
    monkeypatch.setattr(health, "UNWATCHED_SECONDS", 0.5)
    sweep(site.resources)
    assert sweep_age(site) < 0.5
    assert UNWATCHED not in (health.readyz(site.resources).warning or "")
    assert site.do(SINCE_SWEEP, 60)
    eventually(lambda: sweep_age(site) > 0.5, 10)
    assert UNWATCHED in (health.readyz(site.resources).warning or "")


def test_a_start_of_everything_is_no_late_sweep(site: Site) -> None:
    assert site.do(SINCE_SWEEP, 10**8)
    [uptime] = site.do("SELECT extract(epoch FROM now() - pg_postmaster_start_time())::float8")[0]
    assert uptime <= sweep_age(site) < 10**8 - 1

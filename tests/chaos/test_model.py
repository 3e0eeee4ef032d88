"""The random user of `tests/model`, with messages lost and duplicated, and workers killed, one or several at a time.

Runs a few seconds per case; `make chaos SECONDS=… SEED=…` runs longer, also with real processes and real thresholds.
"""

from __future__ import annotations

import os
import random
from functools import partial
from pathlib import Path

import pytest

from tests.chaos.full import only_in_full
from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.model.ground import Kind, Servers, Store, folder_of, machine, settings, steps_in_failures
from tests.model.machine import Machine
from tests.model.proof import Proof
from tests.model.served import served
from tests.service import NewService, eventually, service
from worker.state.index.tasks import SMALL_TASK

#: Seconds for each case.
SECONDS = float(os.environ.get("CHAOS_SECONDS") or 12) / 6
SEED = int(os.environ.get("CHAOS_SEED") or random.randrange(10**6))


@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.parametrize("parallel", [1, 3])
@pytest.mark.parametrize(("kind", "store"), [("local", "lancedb"), ("nodes", "turbopuffer"), ("s3", "turbopuffer")])
def test_lost_messages_and_dead_workers_change_nothing(
    postgres_url: str,
    template_url: str,
    redis_url: str,
    s3: dict[str, str],
    tmp_path: Path,
    kind: Kind,
    store: Store,
    parallel: int,
) -> None:
    servers = Servers(postgres_url, template_url, redis_url, s3)
    with (
        machine(servers, tmp_path, kind, store, SEED, parallel=parallel, losses=0.1, deaths=0.1) as made,
        steps_in_failures(made),
    ):
        # Leases do not expire until the server has been up for a while.
        old = "SELECT FROM pg_postmaster_start_time() AS s WHERE s < now() - interval '11 s'"
        eventually(lambda: bool(made.here.rows(old)), 20)
        made.begin(made.by.choice([0, 3, 5, 12]))
        made.run(SECONDS)


@only_in_full
@pytest.mark.timeout(SECONDS + 600)
@pytest.mark.parametrize("kind", ["local", "nodes"])
def test_an_index_equals_its_folder_at_real_thresholds(new_service: NewService, tmp_path: Path, kind: Kind) -> None:
    """Edits while slices run, in folders below and above the size up to which one slice does everything."""
    with EmbeddingsFake() as provider, FakeTurbopuffer() as fake:
        env = settings(tmp_path, provider, "turbopuffer", fake)
        with new_service(partial(service, bulk=2), **env) as running, served(running) as here:
            made = Machine(here, folder_of(kind, tmp_path, here.client, {}, 1), Proof(here, fake), SEED, most=30)
            with steps_in_failures(made):
                made.begin(made.by.choice([SMALL_TASK - 1, SMALL_TASK, SMALL_TASK + 1, SMALL_TASK + 60]))
                made.run(SECONDS)

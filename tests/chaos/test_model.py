"""The random user of `tests/model`, with messages lost and doubled, and workers killed, one or several at a time.

A few seconds for each case; `make chaos SECONDS=… SEED=…` for more.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.model.ground import Kind, Servers, Store, machine, told
from tests.service import eventually

#: Of each case.
SECONDS = float(os.environ.get("CHAOS_SECONDS") or 12) / 6
SEED = int(os.environ.get("CHAOS_SEED") or random.randrange(10**6))


@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.parametrize("hands", [1, 3])
@pytest.mark.parametrize(("kind", "store"), [("local", "lancedb"), ("nodes", "turbopuffer"), ("s3", "turbopuffer")])
def test_lost_messages_and_dead_workers_change_nothing(
    postgres_url: str,
    template_url: str,
    redis_url: str,
    s3: dict[str, str],
    tmp_path: Path,
    kind: Kind,
    store: Store,
    hands: int,
) -> None:
    servers = Servers(postgres_url, template_url, redis_url, s3)
    with machine(servers, tmp_path, kind, store, SEED, hands=hands, losses=0.1, deaths=0.1) as made, told(made):
        # no lease of a server that just started runs out
        old = "SELECT FROM pg_postmaster_start_time() AS s WHERE s < now() - interval '11 s'"
        eventually(lambda: bool(made.here.rows(old)), 20)
        made.begin(made.by.choice([0, 3, 5, 12]))
        made.run(SECONDS)

"""The caches and buffers of an API process fit into the memory that the operator gives it."""

from __future__ import annotations

import pytest

from api.http.protocol import TimedProtocol
from api.main import create_app
from api.search.query import query_vectors
from worker.machine.memory.api_memory import CONNECTION_BYTES, ApiMemory
from worker.settings import Settings
from worker.state.search import live_rows
from worker.stores import STORES, StoreOptions

#: Bytes of a process with its model that does nothing.
OWN = 215 << 20


def test_all_shares_and_the_process_itself_fit() -> None:
    memory = ApiMemory()
    shares = memory.unsent_answers + memory.bodies + memory.unfinished_headers + memory.query_vectors
    shares += memory.connections * CONNECTION_BYTES + memory.store_vectors + memory.store_tables
    shares += memory.store_words + memory.found_rows
    assert shares + OWN < memory.total


@pytest.mark.parametrize("mebibytes", [256, 1024, 4096])
def test_everything_follows_the_setting(mebibytes: int) -> None:
    try:
        settings = Settings(database_url="postgresql://127.0.0.1:1/none", auth="off", api_memory_mb=mebibytes)
        create_app(settings)
        memory = ApiMemory(mebibytes << 20)
        assert TimedProtocol.max_unsent == memory.unsent_answers == mebibytes << 16
        assert query_vectors._process_cache._vectors.maxsize == memory.query_vectors
        assert TimedProtocol.receiving.max_connections <= memory.connections
        store = STORES["lancedb"].open(settings.values(StoreOptions), True, None)
        assert vars(store)["_cache_bytes"] == (memory.store_words, memory.store_tables, memory.store_vectors)
        assert live_rows._process_rows._max_bytes == memory.found_rows == mebibytes << 15
    finally:
        query_vectors.limit_cache(ApiMemory().query_vectors)
        live_rows.limit_rows(ApiMemory().found_rows)
        TimedProtocol.limit(ApiMemory())
        TimedProtocol.max_unsent = None

"""Two services that these modules share, each with a vector store and a keyword index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.integration.stores.ground import Ground
from tests.service import NewService
from worker.resources import Resources
from worker.settings import Settings


@pytest.fixture(scope="package", params=["lancedb-store", "turbopuffer-postgres"])
def ground(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, new_service: NewService
) -> Iterator[Ground]:
    store, keywords = request.param.split("-")
    root = tmp_path_factory.mktemp("root")
    with EmbeddingsFake() as provider, FakeTurbopuffer() as fake:
        env = {**provider.env, "LOCAL_SOURCE_ROOTS": str(root), "VECTOR_STORE": store, "KEYWORD_INDEX": keywords}
        env |= {"CHUNK_SIZE_TOKENS": "100", "CHUNK_OVERLAP_TOKENS": "0"}
        if store == "turbopuffer":
            env |= fake.env
        # small tasks run on the fast queue; follow-up tasks run on the other one
        with new_service(**env) as started:
            resources = Resources(Settings.model_validate({k.lower(): v for k, v in started.env.items() if v}))
            with closing(resources.pool):
                yield Ground(started, provider, resources, root)

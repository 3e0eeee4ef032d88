"""A machine with its environment: a folder of some kind, a store, a provider, and Foldex in this process."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from uuid import uuid4

import httpx

from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.model.content import MAX_BYTES
from tests.model.folders import Bucket, Disk, Folder, Tree
from tests.model.in_process import Sizes, in_process
from tests.model.machine import Machine
from tests.model.proof import Proof
from tests.service import environment, new_database, next_broker
from worker.objects.object_store import s3_client

Kind = Literal["local", "nodes", "s3"]
Store = Literal["lancedb", "turbopuffer"]


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers that a whole test run shares. `s3` holds a service's settings for buckets, if there are any."""

    postgres_url: str
    template_url: str
    redis_url: str
    s3: Mapping[str, str]


@contextmanager
def machine(
    servers: Servers,
    home: Path,
    kind: Kind,
    store: Store,
    seed: int,
    *,
    parallel: int = 1,
    losses: float = 0.0,
    deaths: float = 0.0,
) -> Iterator[Machine]:
    """A machine over an empty folder, with thresholds that the seed chooses."""
    by = random.Random(seed)
    root = home / "root"
    root.mkdir(parents=True)
    with ExitStack() as stack:
        provider = stack.enter_context(EmbeddingsFake())
        fake = stack.enter_context(FakeTurbopuffer()) if store == "turbopuffer" else None
        url = stack.enter_context(new_database(servers.postgres_url, servers.template_url))
        env = environment(
            home / "home", url, next_broker(servers.redis_url), **settings(root, provider, store, fake), **servers.s3
        )
        sizes = Sizes.chosen(by)
        here = stack.enter_context(in_process(env, by, sizes, parallel=parallel, losses=losses, deaths=deaths))
        made = Machine(here, folder_of(kind, root, here.client, servers.s3, 1), Proof(here, fake), seed)
        made.steps.append(f"{kind}, {store}, seed {seed}, {sizes}")
        yield made


def settings(root: Path, provider: EmbeddingsFake, store: Store, fake: FakeTurbopuffer | None) -> dict[str, str]:
    """The settings of a service. Chunks are small, so that files of few parts have several, and vectors are short."""
    return {
        **provider.env,
        **(fake.env if fake else {}),
        "LOCAL_SOURCE_ROOTS": str(root),
        "VECTOR_STORE": store,
        "KEYWORD_INDEX": "postgres" if fake else "store",
        "EMBEDDING_DIMENSIONS": "16",
        "CHUNK_SIZE_TOKENS": "64",
        "CHUNK_OVERLAP_TOKENS": "0",
        "MAX_FILE_BYTES": str(MAX_BYTES),
    }


def folder_of(kind: Kind, root: Path, client: httpx.Client, s3: Mapping[str, str], number: int) -> Folder:
    """Create an empty folder."""
    if kind == "local":
        (root / f"{number}").mkdir()
        return Disk(root / f"{number}")
    if kind == "nodes":
        return Tree(client, number)
    url, bucket = s3["S3_ENDPOINT_URL"], f"bucket-{uuid4().hex}"
    s3_client(url).create_bucket(Bucket=bucket)
    return Bucket(url, bucket, "docs")


@contextmanager
def steps_in_failures(made: Machine) -> Iterator[None]:
    """Add all steps to a failure, so that it can be read and repeated."""
    try:
        yield
    except AssertionError as error:
        error.add_note(
            "\n".join([f"to repeat: MODEL_SEED={made.seed} or, of the chaos suite, SEED={made.seed}", *made.steps])
        )
        raise

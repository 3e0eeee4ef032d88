"""Which vectors a project need not pay for: those in its cache, and in its other indexes; beside another project's."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest

from tests.integration.steps.site import Site, listed_site
from worker.resources import Resources
from worker.state.index import embedding_cache, tools
from worker.state.index.embedding_cache import VectorOwner

pytestmark = pytest.mark.usefixtures("nobody_else")

BOTH = (True, False)


def new_hash() -> str:
    return f"sha256:{uuid4().hex * 2}"


def owner_of(site: Site, **changed: Any) -> VectorOwner:
    return VectorOwner(site.project, site.index.settings.embedder.model_copy(update=changed))


def copied_index(site: Site, **changed: Any) -> UUID:
    name = uuid4().hex
    return site.copy_row("search_index", site.index.id, identity=name, namespace=name, **changed)


def test_a_vector_is_in_the_projects_own_indexes_of_the_same_store_and_embedder(resources: Resources) -> None:
    site, other = (listed_site(resources, 1) for _ in range(2))
    site.finish_all()
    ((chunk,),) = site.do("SELECT id FROM chunk WHERE index_id = %s", site.index.id)
    ((settings,),) = site.do("SELECT settings FROM search_index WHERE id = %s", site.index.id)
    expected, hashes = set(), []

    def add(index_id: UUID, namespace: str, *, counts: bool, **state: bool) -> None:
        hashes.append(new_hash())
        id_ = site.copy_row("chunk", chunk, index_id=str(index_id), content_hash=hashes[-1], **state)
        if counts:
            expected.add((hashes[-1], namespace, id_))

    for name, value in (("model", "another"), ("dimensions", 7), ("precision", "another"), ("model", None)):
        embedder = settings["embedder"] if value is None else settings["embedder"] | {name: value}
        for is_own, is_here, is_deleted in product(BOTH, BOTH, BOTH):
            changed = {"settings": settings | {"embedder": embedder}}
            changed |= {"project_id": (site if is_own else other).project}
            changed |= {"vector_store": "lancedb" if is_here else "turbopuffer"}
            index_id = copied_index(site, **changed)
            if is_deleted:
                site.do("UPDATE search_index SET deleted_at = now() WHERE id = %s", index_id)
            ((namespace,),) = site.do("SELECT namespace FROM search_index WHERE id = %s", index_id)
            add(index_id, namespace, counts=value is None and is_own and is_here and not is_deleted)
    for live, embedded, lost in product(BOTH, BOTH, BOTH):
        state = {"live": live, "embedded": embedded, "lost": lost}
        add(site.index.id, site.index.namespace, counts=live and embedded and not lost, **state)
    found = embedding_cache.live_elsewhere(site.pool, owner_of(site), "lancedb", [*hashes, new_hash()])
    assert len(expected) == 2
    assert set(found) == expected


def test_a_vector_that_is_used_stays_in_the_cache_of_its_own_project_and_embedder(resources: Resources) -> None:
    site, other = (listed_site(resources, 1) for _ in range(2))
    used, unused = new_hash(), new_hash()
    owners = [owner_of(site), owner_of(site, precision="another"), owner_of(other)]
    for number, owner in enumerate(owners):
        embedding_cache.insert(site.pool, owner, {hash_: np.full(2, number, np.float32) for hash_ in (used, unused)})
    site.do("UPDATE embedding_cache SET used_at = now() - interval '90 days'")
    for number, owner in enumerate(owners):
        found = embedding_cache.lookup(site.pool, owner, [used, new_hash()])
        assert {hash_: [*vector] for hash_, vector in found.items()} == {used: [number, number]}
        recent = "SELECT count(*) FROM embedding_cache WHERE used_at > now() - %s"
        assert site.do(recent, timedelta(hours=1)) == [(number + 1,)]
    site.do("DELETE FROM embedding_cache")


def test_a_project_without_tools_keeps_no_vectors(resources: Resources) -> None:
    site, other = (listed_site(resources, 1) for _ in range(2))
    tools.delete(site.pool, site.tool)
    for each, kept in ((site, False), (other, True)):
        owner, hash_ = replace(owner_of(other), project_id=each.project), new_hash()
        embedding_cache.insert(site.pool, owner, {hash_: np.ones(2, np.float32)})
        assert (hash_ in embedding_cache.lookup(site.pool, owner, [hash_])) == kept

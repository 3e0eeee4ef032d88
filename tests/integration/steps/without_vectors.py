"""Takes vectors from an index that is complete, as if it had its words only so far."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from tests.integration.steps.site import Site
from worker.state.index import drift
from worker.vectors import VectorRow


def take_vectors(site: Site, ids: Collection[UUID] | None = None) -> None:
    """Leave these live chunks, or all, with their words only: in the rows, the store and the counts."""
    taken = sorted(site.chunks(live=True) if ids is None else ids)
    generation, attributes, words = drift.rewrite(site.pool, site.index.id, taken)
    drift.mark_lost(site.pool, site.index.id, taken, None)
    site.do("UPDATE search_index_file SET awaits_vectors = true WHERE index_id = %s AND vectors_due > 0", site.index.id)
    rows = [VectorRow(id_, None, attributes[id_], words[id_], generation) for id_ in taken]
    site.resources.store_of(site.index).write(site.index.namespace, site.index.settings.embedder.dimensions, rows)
    due = "(SELECT sum(vectors_due) FROM search_index_file WHERE index_id = %s)"
    site.do(
        f"UPDATE search_index_task SET vectors_due = {due}, vector_chunks = total_chunks - {due} WHERE id = %s",
        *(site.index.id, site.index.id, site.task),
    )

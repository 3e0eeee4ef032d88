"""Estimates what a tool would cost, without creating it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from api.http.shares import ESTIMATES
from api.indexers.folder_estimate import PricedModel, estimate
from schemas.content.document import SourceEntry
from schemas.estimate import Estimate
from schemas.tool import IndexSettings
from worker.embed.known_models import lookup_model
from worker.embed.models import is_local, limits
from worker.formats import by_name
from worker.resources import Resources
from worker.state.index import listings, tools
from worker.state.index.tools import Index, NewIndex
from worker.stores import too_large

#: Digits of a number of chunks that an estimate leaves open where the number matters.
ROUNDED_DIGITS = 4


def estimate_of(new_index: NewIndex, resources: Resources, *, renewed: Index | None = None) -> Estimate:
    """Estimate the first run over an index, or the next one if it exists.

    The texts of a `renewed` index, which it replaces, cost nothing if they stay the same. Raises `EstimateBusy`,
    `ProjectBusy` or `SourceError`.
    """
    settings, index_id = new_index.settings, tools.find(resources.pool, new_index)

    def unchanged(listed: Sequence[SourceEntry]) -> set[bytes]:
        found = set() if index_id is None else unchanged_in(index_id, listed)
        if renewed is None or renewed.id == index_id:
            return found
        same = [entry for entry in listed if _stem(entry, renewed.settings) == _stem(entry, settings)]
        return found | unchanged_in(renewed.id, same)

    def unchanged_in(id_: UUID, listed: Sequence[SourceEntry]) -> set[bytes]:
        """The keys of files whose texts stay the same, whatever they are called now."""
        paths = listings.find_unchanged(resources.pool, id_, listed)
        forms = {"file_stems": settings.file_stems, "sidecars": settings.sidecars}
        return {
            entry.key
            for entry in listed
            if entry.key in paths
            and ((before := paths[entry.key]) is None or not by_name.changes_chunks(before, entry.path, **forms))
        }

    name = settings.embedder.model
    model_limits = limits(name)
    model = PricedModel(
        name,
        max_inputs=resources.settings.embedding_batch_size or model_limits.max_inputs,
        max_request_tokens=model_limits.max_request_tokens,
        price=0.0 if is_local(name) else lookup_model(name).input_price,
    )
    with ESTIMATES.hold(new_index.project_id):
        found = estimate(
            resources.source_with(new_index.project_id, new_index.source, settings),
            settings,
            tools.restricting_types(new_index.folder_node_id, settings),
            unchanged,
            helpers=resources.helpers(new_index.project_id),
            tokenizer=resources.tokenizer(settings.embedder),
            model=model,
        )
    expected = found.by_granularity[settings.chunks.granularity].chunks.expected
    chunks = round(int(expected), -ROUNDED_DIGITS)
    size = too_large(new_index.vector_store, chunks, settings.embedder.dimensions)
    return found.model_copy(update={"notes": [*filter(None, [size]), *found.notes]})


def _stem(entry: SourceEntry, settings: IndexSettings) -> str:
    format_, _ = by_name.of(by_name.with_stated_type(entry.path, entry.type))
    return by_name.embedded_stem(entry.path, format_.type, file_stems=settings.file_stems)

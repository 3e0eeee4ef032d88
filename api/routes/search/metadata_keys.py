"""Lists the metadata that a tool's files have, and takes filters by it in addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import TypeAdapter, ValidationError

from api.http.bodies import JsonRoute
from api.http.dependencies import IndexDep, ResourcesDep
from api.http.disconnect import Disconnect
from api.http.sight import SeenIndex
from api.search.text import metadata_filter
from api.search.text.visibility import VisibleFiles, ids_of, visible_files
from schemas.errors import Invalid
from schemas.queries.metadata import MAX_ADDRESS_CHARACTERS, MetadataFilter, MetadataKeys
from worker.resources import Resources

router = APIRouter(prefix="/api/tools/search/{tool_id}", tags=["search"], route_class=JsonRoute)

#: Maximum values that are listed of a key.
MAX_VALUES = 100

_FILTER: TypeAdapter[dict[str, Any] | None] = TypeAdapter(MetadataFilter)

#: A filter by metadata in an address.
FilterParameter = Annotated[
    str | None,
    Query(
        max_length=MAX_ADDRESS_CHARACTERS,
        description="Only files with this metadata: a JSON object as `filters.metadata` of a query.",
        examples=['{"team": "red"}'],
    ),
]


def conditions_of(metadata: str | None) -> dict[str, Any] | None:
    """The filter in an address; None without one. Raises `Invalid`."""
    try:
        return None if metadata is None else _FILTER.validate_json(metadata)
    except ValidationError as error:
        raise Invalid(f"The parameter metadata is no filter: {error.errors()[0]['msg']}.") from error


def selected(
    resources: Resources, index: SeenIndex, metadata: str | None, disconnect: Disconnect
) -> Sequence[UUID] | None:
    """The ids of the files that the caller may read, and a filter in an address selects; None: all files.

    Raises `Invalid` and `CallerLeft`.
    """
    return selected_among(
        resources, index, metadata, visible_files(resources.pool, index, disconnect.check), disconnect
    )


def selected_among(
    resources: Resources,
    index: SeenIndex,
    metadata: str | None,
    visible: VisibleFiles | None,
    disconnect: Disconnect,
) -> Sequence[UUID] | None:
    """Do what `selected` does, with the files that the caller may read."""
    conditions = conditions_of(metadata)
    if conditions is None:
        return None if visible is None else list(visible.ids)
    found = metadata_filter.passing(resources.pool, index.id, index.metadata, conditions, disconnect.check).files
    return list(found if visible is None else found & visible.ids)


@router.get("/metadata")
def list_metadata(
    index: IndexDep,
    resources: ResourcesDep,
    values: Annotated[int, Query(ge=1, le=MAX_VALUES, description="Maximum number of values of a key.")] = 20,
) -> MetadataKeys:
    """List the keys that searches can filter by, each with its most frequent values."""
    visible = visible_files(resources.pool, index)
    return metadata_filter.keys_of(resources.pool, index.id, index.metadata, values, ids_of(visible))

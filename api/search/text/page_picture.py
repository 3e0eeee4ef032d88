"""Draws the page of a chunk: a helper does it, within its limits, from the bytes that the chunk was made of."""

from __future__ import annotations

import hashlib
from base64 import b64encode

from api.http.sight import SeenIndex
from schemas.errors import FileError, SourceError, SourceUnavailable
from schemas.queries.search import Picture
from worker.resources import Resources
from worker.sandbox.requests import picture_of
from worker.state.index import file_lookup
from worker.state.search.found_chunks import HitRow

#: The type of files that have pictures.
PDF = "pdf"


def page_picture(resources: Resources, index: SeenIndex, row: HitRow) -> Picture | None:
    """The first page of a chunk; None if its file has no pages, has changed, or cannot be drawn.

    Raises `SourceUnavailable`.
    """
    if row.file_type != PDF or row.page is None:
        return None
    content = file_lookup.live_content(resources.pool, row.file_id)
    if content is None:
        return None
    key, fingerprint = content
    try:
        data = resources.source_of(index).read(key, index.settings.max_file_bytes).data
        if not fingerprint.startswith(f"sha256:{hashlib.sha256(data).hexdigest()} "):
            return None
        drawn = picture_of(resources.helpers(index.project_id), data, row.page, row.chunk_text)
    except SourceUnavailable:
        raise
    except (FileError, SourceError):
        # what cannot be read or drawn has its text all the same
        return None
    png = b64encode(drawn.png).decode()
    return Picture(page=row.page, png=png, width=drawn.width, height=drawn.height, boxes=drawn.boxes)

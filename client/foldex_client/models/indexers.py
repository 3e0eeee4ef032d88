"""The kinds of index and of source that a tool can have."""

from __future__ import annotations

from typing import Any

from foldex_client.models.base import Model


class IndexerInfo(Model):
    """A kind of index. `status` tells whether it can be built here."""

    name: str
    description: str
    status: str
    config_schema: dict[str, Any]


class SourceInfo(Model):
    """A kind of source. `source_schema` is the JSON schema of a tool's `source`."""

    kind: str
    title: str
    follows_edits: bool
    is_watchable: bool
    needs_event_queue: bool
    source_schema: dict[str, Any]

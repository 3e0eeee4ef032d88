"""The kinds of index that a tool can have."""

from __future__ import annotations

from typing import Any

from foldex_client.models.base import Model


class IndexerInfo(Model):
    """A kind of index. `status` tells whether it can be built here."""

    name: str
    description: str
    status: str
    config_schema: dict[str, Any]

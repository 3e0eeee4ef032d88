"""Values of the fields of bodies."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from foldex_client.models import Source


class _Unset:
    """Stands for a field that is not sent, where None has a meaning of its own."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset()


def target(
    path: str | os.PathLike[str] | None,
    bucket: str | None,
    prefix: str | None,
    node_id: str | None,
    source: Source | Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The fields for a folder of the service's machine, a bucket, a node or any source."""
    if sum(each is not None for each in (path, bucket, node_id, source)) != 1:
        raise ValueError("Give one of path, bucket, node_id and source.")
    if path is not None:
        source = {"kind": "local", "path": os.fspath(path)}
    elif bucket is not None:
        source = {"kind": "s3", "bucket": bucket, "prefix": prefix or ""}
    return {"node_id": node_id, "source": source}

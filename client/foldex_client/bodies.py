"""Values of the fields of bodies."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from pydantic_core import to_jsonable_python

from foldex_client.models import Model, Source


class _Unset:
    """Stands for a field that is not sent, where None has a meaning of its own."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset()

#: What a file of an upload holds: bytes, an open binary file, or the path of one.
Content = bytes | IO[bytes] | os.PathLike[str]


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


def given(**fields: Any) -> dict[str, Any]:
    """The fields of a body or query, without those that are None."""
    return sent(**{name: UNSET if value is None else value for name, value in fields.items()})


def sent(**fields: Any) -> dict[str, Any]:
    """The fields of a body, without those that are UNSET. Models have only the fields that the caller gave."""
    return {name: as_json(value) for name, value in fields.items() if value is not UNSET}


def as_json(value: Any) -> Any:
    """A value in the form of JSON. Models have only the fields that the caller gave."""
    return value.model_dump(mode="json", exclude_unset=True) if isinstance(value, Model) else to_jsonable_python(value)


def readable(content: Content, opened: ExitStack) -> bytes | IO[bytes]:
    """Bytes, or a file that can be read again if the upload has to be sent again."""
    if isinstance(content, bytes):
        return content
    if isinstance(content, os.PathLike):
        return opened.enter_context(Path(content).open("rb"))
    return content if content.seekable() else content.read()


def in_address(value: object) -> str | None:
    """A value as JSON, for an address; None without one."""
    return None if value is None else json.dumps(value)

"""The named queries of `.sql` files, and conversions between Python and Postgres values."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.sql import SQL

from worker.machine.named_texts import named_texts

_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
#: A fragment's name in a query; two colons are a cast.
_INCLUDED = re.compile(r"(?<!:):([a-z_]+)")


@functools.cache
def load(name: str) -> dict[str, SQL]:
    """Load the queries of `worker/state/{name}.sql`, by the name in the `-- name:` line above each.

    A query includes a fragment of `fragments.sql` as `:name`.
    """
    # psycopg requires literal strings to keep user input out of SQL; a file of this package is as safe
    return {key: SQL(_with_fragments(text)) for key, text in _texts(name).items()}


def _texts(name: str) -> dict[str, str]:
    return named_texts("worker.state", f"{name}.sql")


def _with_fragments(text: str) -> str:
    return _INCLUDED.sub(lambda match: _with_fragments(_COMMENT.sub("", _texts("fragments")[match[1]])), text)


def is_true(connection: Connection[Any], query: SQL, values: Mapping[str, object] | None = None) -> bool:
    """Return the answer to a yes/no query."""
    row = connection.execute(query, values).fetchone()
    return row is not None and bool(row[0])


def text_array(items: Iterable[str]) -> str:
    """Return an array as text, for items without quoting: psycopg would inspect and quote a list's items singly."""
    return f"{{{','.join(items)}}}"


def only_of(ids: Iterable[UUID] | None) -> str | None:
    """Return the parameter `only`: the only files that a query may read; None: all."""
    return None if ids is None else text_array(map(str, ids))


def prepare_for(only: object) -> bool | None:
    """Return whether to prepare a query. A generic plan would compare each row with all selected files."""
    return None if only is None else False


def storable(text: str) -> str:
    """Return a text that Postgres accepts: without NUL and lone surrogates."""
    return text.replace("\0", " ").encode(errors="replace").decode()

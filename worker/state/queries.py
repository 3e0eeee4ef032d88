"""The named queries of `.sql` files, and values as Postgres takes and gives them."""

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
    """The answer to a query that asks whether something is so."""
    row = connection.execute(query, values).fetchone()
    return row is not None and bool(row[0])


def text_array(items: Iterable[str]) -> str:
    """An array in text, of items that need no quoting: psycopg would inspect and quote those of a list one by one."""
    return f"{{{','.join(items)}}}"


def only_of(ids: Iterable[UUID] | None) -> str | None:
    """The only files that a query may read, as its parameter `only`; None: all."""
    return None if ids is None else text_array(map(str, ids))


def prepare_for(only: object) -> bool | None:
    """Whether to prepare a query: planned for any selection, it would compare each row with all its files."""
    return None if only is None else False


def storable(text: str) -> str:
    """A text as Postgres accepts it: with neither NUL nor lone surrogates."""
    return text.replace("\0", " ").encode(errors="replace").decode()

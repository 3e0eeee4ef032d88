"""The address of the database."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PooledAddress:
    """A database behind a pooler in transaction mode: each transaction may use a different connection.

    So no session is kept. The limits of the role apply on the server, and no statement is prepared.
    """

    url: str


#: A database's URL, or the database behind a pooler.
Address = str | PooledAddress

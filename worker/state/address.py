"""Where the database is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PooledAddress:
    """A database behind a pooler in transaction mode: each transaction may reach it over another connection.

    So no session is kept. The server's limits are those of the role, and no statement is prepared.
    """

    url: str


#: A database's URL, or what is behind a pooler.
Address = str | PooledAddress

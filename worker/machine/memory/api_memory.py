"""Memory limits for the caches and buffers of one API process, as shares of `API_MEMORY_MB`.

The rest is for the process itself with its model (215 MB), and for calls in progress.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Default MiB of one API process.
DEFAULT_MB = 1024
#: Bytes of a waiting connection.
CONNECTION_BYTES = 32 << 10


@dataclass(frozen=True, slots=True)
class ApiMemory:
    """The shares, in bytes."""

    total: int = DEFAULT_MB << 20

    @property
    def unsent_answers(self) -> int:
        """Parts of answers that slow clients have not read."""
        return self.total // 16

    @property
    def bodies(self) -> int:
        """Bodies that arrive or are in progress."""
        return self.total // 16

    @property
    def unfinished_headers(self) -> int:
        """Headers that are not complete."""
        return self.total // 64

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return self.total // 16 // CONNECTION_BYTES

    @property
    def query_vectors(self) -> int:
        """Vectors of queries."""
        return self.total // 32

    @property
    def store_vectors(self) -> int:
        """Vectors of LanceDB's tables."""
        return self.total // 16 * 3

    @property
    def store_words(self) -> int:
        """Words of LanceDB's tables."""
        return self.total // 8

    @property
    def found_rows(self) -> int:
        """Rows of found chunks."""
        return self.total // 32

    @property
    def store_tables(self) -> int:
        """Indexes and other data of LanceDB's tables."""
        return self.total // 32 * 5

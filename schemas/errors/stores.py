"""Errors of vector stores and disks."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from schemas.errors.base import FoldexError
from schemas.errors.sources import SourceUnavailable


class StoreError(FoldexError):
    """The vector store did not carry out an operation."""

    code = "store_error"
    status = 502


class StoreRefused(StoreError):
    """The store refuses some of these rows; a smaller batch may pass. `ids` are those of the rows, if known."""

    code = "store_refused"
    example = "This store has no keyword index; set KEYWORD_INDEX=store and index the folder again."

    def __init__(self, message: str, *, ids: Sequence[UUID] = ()) -> None:
        super().__init__(message)
        self.ids = ids


class StoreUnauthorized(StoreError):
    """The store refuses the key."""

    code = "store_unauthorized"
    settings_of = "store"
    example = "Turbopuffer rejected the key; check TURBOPUFFER_API_KEY."


class TextKeyMissing(StoreError):
    """The key is gone whose hashes the store has instead of words, names and paths."""

    code = "text_key_missing"
    settings_of = "store"
    example = (
        "The store has hashes of this folder's words under a key that is neither BLIND_TOKEN_KEY nor the one in "
        'Postgres (id 5f0c0a1b2c3d4e5f); set that key again, or reindex with {"full": true}.'
    )

    def __init__(self, key_id: str) -> None:
        super().__init__(
            "The store has hashes of this folder's words under a key that is neither BLIND_TOKEN_KEY nor the one in "
            f'Postgres (id {key_id}); set that key again, or reindex with {{"full": true}}.'
        )


class StoreUnavailable(StoreError):
    """Back-pressure, time-out, connection error or server error.

    `timed_out` means that no answer came in time, and `is_busy` that the store has too much to do at the moment.
    """

    code = "store_unavailable"
    status = 503
    retryable = True
    example = "Turbopuffer did not answer in time; try again later."

    def __init__(
        self, message: str, *, retry_after: float | None = None, timed_out: bool = False, is_busy: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.timed_out = timed_out
        self.is_busy = is_busy


class VectorsElsewhere(StoreUnavailable):
    """This process sees another directory than the one that holds the installation's vectors."""

    code = "vectors_elsewhere"
    example = (
        "/var/lib/foldex/lancedb on host-2 is not the directory that holds this installation's vectors; share that one "
        "with this machine, or use Turbopuffer, or run `foldex adopt lancedb` if that one is lost."
    )


class ContentsElsewhere(SourceUnavailable):
    """This process sees another directory than the one that holds the contents of nodes."""

    code = "contents_elsewhere"
    example = (
        "/var/lib/foldex/objects on host-2 is not the directory that holds this installation's contents; share that "
        "one with this machine, or set S3_BUCKET, or run `foldex adopt objects` if that one is lost."
    )


class Locked(FoldexError):
    """Another session of the database holds what the call needs. It may let go of it later."""

    code = "locked"
    status = 503
    retryable = True
    example = (
        "Another session of the database holds what this call needs; try again shortly, or ask the operator to run "
        "`foldex doctor`, which names it."
    )


class SchemaBehind(FoldexError):
    """The database lacks migrations of this release."""

    code = "schema_behind"
    status = 503
    retryable = True
    example = (
        "The database lacks 2 of this release's migrations, from 0047_first_release on; run `foldex migrate`, and try "
        "again."
    )


class ReleaseBehind(FoldexError):
    """A tool was written by a newer release, which this process cannot read."""

    code = "release_behind"
    status = 503
    retryable = True
    example = (
        "A newer release wrote this tool, and 1.0.0 cannot read its config.refs; upgrade this process, and try again."
    )


class DiskFull(FoldexError):
    """A required disk has no space left. Space may become free later."""

    code = "disk_full"
    status = 503
    retryable = True
    example = "The disk of FOLDEX_HOME has 12 MB left, but 512 MB are needed; free some space, or delete tools."

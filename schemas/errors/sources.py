"""Errors of folders and of their files."""

from __future__ import annotations

from schemas.errors.base import FoldexError
from schemas.reason import Reason


class SourceError(FoldexError):
    """A source cannot be listed or read as a whole."""

    code = "source_error"
    status = 422
    example = "The content of node 'file-data-68abc' is missing from the object store; upload it again."


class FolderGone(SourceError):
    """The root of the source does not exist, or no longer exists."""

    code = "folder_gone"
    example = "/srv/docs is not a directory, or no longer exists; choose an existing directory."


class SourceRefused(SourceError):
    """The source is outside what this installation may read, or its credentials are wrong."""

    code = "source_refused"
    settings_of = "source"
    example = "S3 cannot be used (AccessDenied); check the credentials and S3_ENDPOINT_URL."


class FolderElsewhere(SourceError):
    """The folder at this path of the machine is another one than that of the machine that indexed it."""

    code = "folder_elsewhere"
    example = (
        "/srv/docs on host-2 is not the folder that host-1 indexed; mount that one, start the workers of host-1, or, "
        'if that machine is gone, reindex with {"allow_removals": true}.'
    )


class SourceUnavailable(SourceError):
    """The source did not answer; a later retry can help."""

    code = "source_unavailable"
    status = 503
    retryable = True
    example = "S3 did not answer for bucket 'docs'; check S3_ENDPOINT_URL."


class SourceBusy(SourceUnavailable):
    """Too many files of containers or of unusual encodings are being opened; this request must wait."""

    code = "source_busy"
    example = "Too many files are being opened; try again shortly."


class FileError(FoldexError):
    """The outcome of a single file that is not indexed; the rest of the folder continues."""

    code = "file_error"

    def __init__(self, reason: Reason, message: str | None = None) -> None:
        super().__init__(message or reason.remedy)
        self.reason = reason


class FileTooSlow(FileError):
    """The outcome of a file that takes more time than it may."""

    code = "file_too_slow"

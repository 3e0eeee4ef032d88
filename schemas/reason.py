"""Outcomes of files, and the reasons why a file is not indexed. SQL CHECK constraints repeat these values.

Helper processes start often, and load this without the models of calls.
"""

from __future__ import annotations

from enum import StrEnum


class FileStatus(StrEnum):
    """`pending → indexing → indexed | skipped | failed`, and `removed` once the file is gone from the source."""

    PENDING = "pending"
    INDEXING = "indexing"
    INDEXED = "indexed"
    SKIPPED = "skipped"
    FAILED = "failed"
    REMOVED = "removed"


class Reason(StrEnum):
    """Why a file is skipped or failed. `remedy` is what the file's owner can do about it."""

    EMPTY = "empty"
    NO_TEXT = "no_text"
    BINARY = "binary"
    TOO_LARGE = "too_large"
    UNSUPPORTED_TYPE = "unsupported_type"
    NOT_UTF8 = "not_utf8"
    NEEDS_OCR = "needs_ocr"
    ENCRYPTED = "encrypted"
    MINIFIED = "minified"
    GENERATED = "generated"
    SECRET = "secret"  # noqa: S105 - a reason
    SYMLINK = "symlink"
    NOT_A_FILE = "not_a_file"
    UNREADABLE = "unreadable"
    PARSE_FAILED = "parse_failed"
    EMBEDDING_REFUSED = "embedding_refused"
    COST_LIMIT = "cost_limit"
    STORE_REFUSED = "store_refused"
    CRASHED = "crashed"
    SIDECAR = "sidecar"

    @property
    def status(self) -> FileStatus:
        """Whether a file with this reason counts as skipped (by design) or failed (worth a retry)."""
        return FileStatus.FAILED if self in _FAILURES else FileStatus.SKIPPED

    @property
    def remedy(self) -> str:
        """One sentence for the owner of the file: how to solve the problem."""
        return _REMEDIES[self]


_FAILURES = frozenset(
    {
        Reason.UNREADABLE,
        Reason.PARSE_FAILED,
        Reason.EMBEDDING_REFUSED,
        Reason.COST_LIMIT,
        Reason.STORE_REFUSED,
        Reason.CRASHED,
    }
)

_REMEDIES = {
    Reason.EMPTY: "The file has no content; add some and index again.",
    Reason.NO_TEXT: "The file contains only white space; add text and index again.",
    Reason.BINARY: "The file contains binary data, not text; export it as text to make it searchable.",
    Reason.TOO_LARGE: "The file exceeds MAX_FILE_BYTES or the limit in its message; split it or raise that setting.",
    Reason.UNSUPPORTED_TYPE: "This file type is not supported; export it as text, Markdown or JSON.",
    Reason.NOT_UTF8: "The file is not valid UTF-8; save it as UTF-8 and index again.",
    Reason.NEEDS_OCR: "The file contains images of text; install tesseract-ocr on the workers and index again.",
    Reason.ENCRYPTED: "The file is encrypted; save it without a password and index again.",
    Reason.MINIFIED: "The file is minified; index its source, or add `minified` to the tool's config.keep.",
    Reason.GENERATED: "The file is generated; index its source, or add `generated` to the tool's config.keep.",
    Reason.SECRET: "The file holds a private key or a token; remove it, or add `secrets` to the tool's config.keep.",
    Reason.SYMLINK: "Symbolic links are not followed; index the link's target instead.",
    Reason.NOT_A_FILE: "Pipes, sockets and devices are not read; save their output as a file.",
    Reason.UNREADABLE: "The file could not be read; check its permissions and that it still exists, then index again.",
    Reason.PARSE_FAILED: "The file is not well-formed; repair it, or rename it to .txt to index it as plain text.",
    Reason.EMBEDDING_REFUSED: "The embedding provider rejected this file's text; exclude it, or change the model.",
    Reason.COST_LIMIT: "The run reached the tool's config.max_cost_tokens; raise it, then retry.",
    Reason.STORE_REFUSED: "The vector store rejected this file's rows; change or exclude it, then index again.",
    Reason.CRASHED: "Reading this file crashed its process three times; exclude it or convert it.",
    Reason.SIDECAR: "The file holds metadata of the file beside it; take `sidecars` out of the tool's "
    "config.metadata_from to search it.",
}

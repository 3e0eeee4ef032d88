"""The base of all errors."""

from __future__ import annotations

from typing import ClassVar, Literal, Self


class FoldexError(Exception):
    """Base of all errors. `message` is one sentence for the caller that names the remedy."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False
    #: The settings that cause it. Another machine with other settings may succeed.
    settings_of: ClassVar[Literal["source", "store", "embedding", "llm"] | None] = None
    #: A message as a caller may meet it, for errors that answer requests.
    example: ClassVar[str] = ""

    #: Seconds after which a retry can help, if known.
    retry_after: float | None = None

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def with_message(self, message: str) -> Self:
        """The same error with another message."""
        error = type(self).__new__(type(self), message)
        vars(error).update(vars(self), message=message)
        return error

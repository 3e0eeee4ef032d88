"""Models that summarise the texts of a cluster."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from worker.tree import extractive

Check = Callable[[], None]


class SummaryResult(NamedTuple):
    """A summary, or the reason why there is none."""

    text: str | None
    skip_reason: str | None = None


class Summariser(Protocol):
    """A model with its prompt."""

    @property
    def concurrency(self) -> int:
        """Maximum number of concurrent summaries."""
        ...

    @property
    def identity(self) -> str:
        """A string that is equal for two models exactly if they give equal summaries of equal texts."""
        ...

    def afford(self, tokens: int) -> None:
        """Raise `TooManyTokens` if the build may not send and receive `tokens` tokens."""
        ...

    def summarise(self, texts: Sequence[str], check: Check) -> SummaryResult:
        """Summarise the texts of a cluster. `check` raises once the summary is not wanted any more."""
        ...


class Extractive:
    """`local/extractive`: chooses sentences, and costs nothing."""

    concurrency = 1
    identity = f"{extractive.MODEL} 1"

    def afford(self, tokens: int) -> None:
        """See `Summariser`."""

    def summarise(self, texts: Sequence[str], check: Check) -> SummaryResult:
        """See `Summariser`."""
        check()
        text = extractive.summary(texts)
        return SummaryResult(text) if text else SummaryResult(None, "no_words")


def key_of(summariser: Summariser, children: Sequence[str]) -> str:
    """Return a hash of all inputs of a cluster's summary: the model, its prompt, and the children in any order."""
    digest = hashlib.sha256(summariser.identity.encode())
    for child in sorted(children):
        digest.update(b"\0" + child.encode())
    return digest.hexdigest()

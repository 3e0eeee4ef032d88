"""What tests of rates have in common: a clock that moves only when somebody waits, and a provider that is down."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any
from unittest.mock import Mock

from worker.embed.rates import Rate
from worker.embed.retry import Failure, TimeSource

UNLIMITED = Rate(None, None, 60)
DOWN = Failure(0, is_rate_limit=False, reason="down")

#: What a mocked budget says of the sizes of requests.
NO_LIMITS: dict[str, Any] = {
    "max_request_tokens": None,
    "request_share": 1.0,
    "largest_request": lambda texts, tokens: (texts, tokens),
    "sizes": Mock(is_in_doubt=False, shortest_refused=math.inf),
}


@dataclass
class Hours:
    """A clock that pausing advances."""

    time: float = 1000.0

    def pause(self, seconds: float) -> None:
        self.time += seconds

    @property
    def clock(self) -> TimeSource:
        return TimeSource(lambda: self.time, self.pause)

"""The header with which a service asks to wait. The client library has its own reader, as it imports no other part."""

from __future__ import annotations

import math
import time
from email.utils import parsedate_to_datetime


def seconds_to_wait(retry_after: str | None) -> float | None:
    """Seconds to wait, from the value of a Retry-After header that holds seconds or a date."""
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        pass
    else:
        return max(0.0, seconds) if math.isfinite(seconds) else None
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return None

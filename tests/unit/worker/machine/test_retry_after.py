"""How long a service asks to wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from worker.machine.retry_after import seconds_to_wait


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("0", 0),
        ("2.5", 2.5),
        ("-1", 0),
        ("soon", None),
        ("inf", None),
        ("nan", None),
        ("Mon, 01 Jan 2024 00:00:00 GMT", 0),
    ],
)
def test_the_time_to_wait_is_in_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert seconds_to_wait(header) == seconds


def test_the_time_to_wait_until_a_date_is_what_is_left() -> None:
    before = datetime.now(UTC)
    seconds = seconds_to_wait(format_datetime(before + timedelta(hours=2)))
    passed = (datetime.now(UTC) - before).total_seconds()
    assert seconds is not None
    # the header has whole seconds
    assert 7200 - passed - 1 <= seconds <= 7200

"""What a helper's end means: the fault of the request at hand, or what an earlier one left in the process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from schemas.errors import FileError
from schemas.reason import Reason
from worker.sandbox import process
from worker.sandbox.helper import Helper
from worker.sandbox.protocol import Bounds

#: More memory than a helper of these tests uses, and less.
ENOUGH, TOO_LITTLE = 1 << 30, 1 << 10


@pytest.fixture
def helper(monkeypatch: pytest.MonkeyPatch) -> Iterator[Helper]:
    monkeypatch.setattr(process, "PROGRAM", "tests.fakes.helper_program")
    made = Helper()
    yield made
    made.stop()


def ask(helper: Helper, used: str, fresh: str = "answers", memory_bytes: int = ENOUGH) -> int:
    """The place of the request among those of the process that answered it. Raises `FileError`."""
    bounds = Bounds(60.0, memory_bytes, payload_bytes=0, patience=1.0, slow="Too slow.", large="Too large.")
    return int(helper.ask({"used": used, "fresh": fresh}, b"data", bounds).head["place"])


def test_a_helper_answers_many_requests(helper: Helper) -> None:
    assert [ask(helper, "answers") for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("used", ["memory", "dies", "SIGABRT", "SIGKILL"])
def test_what_fails_in_a_used_helper_is_tried_again_in_a_fresh_one(helper: Helper, used: str) -> None:
    ask(helper, "answers")
    assert ask(helper, used) == 0
    # the fresh one stays
    assert ask(helper, "answers") == 1


def test_a_used_helper_that_dies_of_too_much_memory_is_replaced(helper: Helper) -> None:
    ask(helper, "answers", memory_bytes=TOO_LITTLE)
    assert helper.running
    # as if all of its memory were its own
    helper.running.inherited = 0
    assert ask(helper, "dies", memory_bytes=TOO_LITTLE) == 0


@pytest.mark.parametrize(
    ("fresh", "reason", "message"),
    [
        ("memory", Reason.TOO_LARGE, "Too large."),
        ("SIGXCPU", Reason.TOO_LARGE, "Too slow."),
        ("SIGABRT", Reason.PARSE_FAILED, "gives up on it"),
        ("refuses", Reason.PARSE_FAILED, "It is damaged."),
        ("dies", Reason.CRASHED, "crash"),
    ],
)
@pytest.mark.parametrize("is_used", [False, True])
def test_what_fails_in_a_fresh_helper_fails_for_good(
    helper: Helper, is_used: bool, fresh: str, reason: Reason, message: str
) -> None:
    if is_used:
        ask(helper, "answers")
    with pytest.raises(FileError, match=message) as failed:
        ask(helper, "memory", fresh)
    assert failed.value.reason is reason
    assert ask(helper, "answers") in {0, 1}

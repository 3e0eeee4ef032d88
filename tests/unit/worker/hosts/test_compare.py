"""What is wrong with the hosts of an installation, seen side by side."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from worker.hosts.compare import MAX_FINDINGS, MAX_NAMED, compare
from worker.hosts.presence import MAX_CLOCK_SECONDS, clock_offset, is_wrong
from worker.state.hosts import ClockOffset, HostProcess

EQUAL: dict[str, dict[str, str | None]] = {"same": {"S3_BUCKET": "aa", "EMBEDDING_RPM": None}}


def process(host: str = "one", **given: Any) -> HostProcess:
    row: dict[str, Any] = {
        "id": uuid4(),
        "host_id": f"{host}-id"[:64],
        "host_name": host,
        "role": "worker",
        "node": f"bulk@{host}",
        "queues": ["bulk", "trees"],
        "release": "1.0",
        "needed_schema": "0045_hosts",
        "settings_digest": "same",
        "shown": {},
        "reached": {},
        "clock_seconds": 0.0,
        "clock_doubt_seconds": 0.0,
        "unseen_seconds": 1.0,
    }
    return HostProcess(**{**row, **given})


def told(processes: list[HostProcess], settings: dict[str, dict[str, str | None]] | None = None) -> list[str]:
    return [str(finding) for finding in compare(processes, EQUAL if settings is None else settings)]


def test_equal_hosts_are_well() -> None:
    assert told([]) == []
    assert told([process(f"h{number}", reached={"S3": None}) for number in range(100)]) == []


@pytest.mark.parametrize(
    ("seconds", "doubt", "wrong"),
    [
        (2.0, 0.0, False),
        (2.001, 0.0, True),
        (-2.0, 0.0, False),
        (-2.001, 0.0, True),
        # it may as well be the way of the message
        (2.5, 0.5, False),
        (2.5, 0.49, True),
        (600.0, 3.0, True),
    ],
)
def test_a_clock_is_wrong_beyond_two_seconds_and_half_of_the_round_trip(
    seconds: float, doubt: float, wrong: bool
) -> None:
    assert MAX_CLOCK_SECONDS == 2
    assert is_wrong(ClockOffset(seconds, doubt)) is wrong
    found = told([process(), process("two", clock_seconds=seconds, clock_doubt_seconds=doubt)])
    assert len(found) == wrong
    if wrong:
        where = "ahead of" if seconds > 0 else "behind"
        assert f"The clock of two-two-id is {abs(seconds):.1f} s {where} Postgres'" in found[0]


def test_a_host_has_one_clock_and_its_latest_note_counts() -> None:
    late = process("two", clock_seconds=9.0, unseen_seconds=15.0)
    assert told([late, process("two", clock_seconds=0.1, unseen_seconds=2.0)]) == []
    assert len(told([late, process("two", clock_seconds=9.1, unseen_seconds=2.0)])) == 1


@pytest.mark.parametrize(
    ("ahead", "way_there", "way_back"), [(0.0, 0.0, 0.0), (5.0, 0.1, 0.1), (-5.0, 3.0, 0.0), (1.0, 0.0, 4.0)]
)
def test_an_offset_is_never_further_off_than_its_doubt(ahead: float, way_there: float, way_back: float) -> None:
    now = 1_000.0

    def ask() -> float:
        nonlocal now
        now += way_there
        theirs = now
        now += way_back
        return theirs

    clock = clock_offset(ask, lambda: now + ahead, lambda: now)
    assert clock.doubt == pytest.approx((way_there + way_back) / 2, abs=0.01)
    assert abs(clock.seconds - ahead) <= clock.doubt + 0.01


def test_a_setting_that_is_not_set_is_named_with_its_process() -> None:
    settings: dict[str, dict[str, str | None]] = {
        "same": {"S3_BUCKET": "aa", "TURBOPUFFER_API_KEY": "bb", "AUTH": "cc"},
        "less": {"S3_BUCKET": None, "TURBOPUFFER_API_KEY": None, "AUTH": "cc"},
    }
    [found] = told([process(), process("two", settings_digest="less"), process("three")], settings)
    assert found == (
        "S3_BUCKET and TURBOPUFFER_API_KEY are not set for bulk@two, but for bulk@one and bulk@three; "
        "set the same there, and restart."
    )


def test_three_values_of_a_setting_are_all_named() -> None:
    settings: dict[str, dict[str, str | None]] = {
        "same": {"AUTH": "aa"},
        "none": {"AUTH": None},
        "other": {"AUTH": "bb"},
    }
    found = told([process(), process("b", settings_digest="none"), process("c", settings_digest="other")], settings)
    assert len(found) == 2
    assert any("not set for bulk@b, but for bulk@one" in sentence for sentence in found)
    assert any("different for bulk@c and for bulk@one" in sentence for sentence in found)


def test_what_only_some_processes_obey_is_compared_among_them() -> None:
    settings: dict[str, dict[str, str | None]] = {"same": {"AUTH": "aa"}, "api": {"AUTH": "aa", "MAX_TOOLS": "bb"}}
    assert told([process(), process(node="api@one", role="api", settings_digest="api")], settings) == []


def test_releases_and_schemas_that_differ_are_named() -> None:
    [found] = told([process(), process("two", release="0.9")])
    assert "bulk@two: 0.9 (0045_hosts)" in found
    assert "bulk@one: 1.0" in found
    assert told([process(), process("two", needed_schema="0043_x")])


def test_a_service_that_is_not_reached_is_told_with_its_reason() -> None:
    failed = {"S3": "The bucket 'x' does not exist; create it or correct S3_BUCKET.", "the broker": None}
    processes = [process(f"h{number}", reached=failed) for number in range(MAX_NAMED + 2)]
    [finding] = compare(processes, EQUAL)
    assert str(finding) == f"bulk@h0, bulk@h1, bulk@h2 and 2 more do not reach S3. {failed['S3']}"
    # a probe without a key says only who
    assert "bucket" not in finding.sentence
    [one] = compare(processes[:1], EQUAL)
    assert one.sentence == "bulk@h0 does not reach S3."


def test_findings_are_few_and_short_whatever_the_rows_hold() -> None:
    names = [f"\x1b[2J<b>{number}{'n' * 10_000}" for number in range(MAX_FINDINGS + 5)]
    processes = [
        process(name, node=f"bulk@{name}", clock_seconds=60.0 + number, release=f"\x1b{number}" * 100)
        for number, name in enumerate(names)
    ]
    found = told(processes)
    assert len(found) == MAX_FINDINGS + 1
    assert found[-1] == "6 more differences between hosts are not shown."
    assert max(map(len, found)) < 10_000
    assert all(sentence.isprintable() and "<" not in sentence for sentence in found)

"""Each process of a machine names it alike, and two machines of one name are two."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from worker.machine import host
from worker.machine.host import Host, plain_name, this_host


@pytest.fixture
def again() -> Iterator[Callable[[], Host]]:
    """What a process that starts now is told."""

    def found() -> Host:
        this_host.cache_clear()
        return this_host()

    yield found
    this_host.cache_clear()


def test_another_process_of_the_machine_has_the_same_host() -> None:
    said = subprocess.run(
        [sys.executable, "-c", "from worker.machine.host import this_host; print(this_host())"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(host.__file__).parents[2],
        env={"PATH": os.defpath},
    )
    assert said.stdout.strip() == str(this_host())


def test_each_part_of_a_host_makes_it_another_one(
    again: Callable[[], Host], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(uuid, "getnode", lambda: 7)
    seen = [again()]
    monkeypatch.setattr(uuid, "getnode", lambda: 8)
    seen.append(again())
    monkeypatch.setattr(socket, "gethostname", lambda: "other")
    seen.append(again())
    monkeypatch.setattr(host, "MACHINE_IDS", (tmp_path / "missing", tmp_path / "id"))
    (tmp_path / "id").write_text("0123456789abcdef\n")
    seen.append(again())
    assert len({each.id for each in seen}) == len(seen)
    assert {each.name for each in seen[2:]} == {"other"}
    assert again() == seen[-1]


def test_an_address_that_was_made_up_for_one_process_does_not_count(
    again: Callable[[], Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up = 1 << 40
    monkeypatch.setattr(uuid, "getnode", lambda: made_up | 7)
    first = again()
    monkeypatch.setattr(uuid, "getnode", lambda: made_up | 8)
    assert again() == first


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("db-1.example.org", "db-1.example.org"),
        ("", "unnamed"),
        ("\x1b[2Jhost\n", "__2Jhost_"),
        ("maschine-\xfc\u202e", "maschine-__"),
        ("n" * 64, "n" * 64),
        ("n" * 10_000, "n" * 64),
        ("\udcff<b>", "__b_"),
    ],
)
def test_a_name_can_be_shown_anywhere(
    again: Callable[[], Host], monkeypatch: pytest.MonkeyPatch, name: str, shown: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    assert again().name == shown == plain_name(shown)

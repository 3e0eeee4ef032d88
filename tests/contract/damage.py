"""Kinds of damage to a file that its reader notices, and that end no process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

#: Bytes that are overwritten at once.
BLOCK = 64


def _cut(file: Path, random: Random) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: random.randrange(max(1, len(data)))])


def _empty(file: Path, _random: Random) -> None:
    file.write_bytes(b"")


def _overwrite_all(file: Path, random: Random) -> None:
    file.write_bytes(random.randbytes(file.stat().st_size))


def _overwrite_beginning(file: Path, random: Random) -> None:
    data = file.read_bytes()
    file.write_bytes(random.randbytes(min(BLOCK, len(data))) + data[BLOCK:])


def _overwrite_end(file: Path, random: Random) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:-BLOCK] + random.randbytes(min(BLOCK, len(data))))


def _remove(file: Path, _random: Random) -> None:
    file.unlink()


def _replace_by_directory(file: Path, _random: Random) -> None:
    file.unlink()
    file.mkdir()


def _replace_by_link(file: Path, _random: Random) -> None:
    file.unlink()
    file.symlink_to("nowhere")


DAMAGE: dict[str, Callable[[Path, Random], None]] = {
    "cut": _cut,
    "emptied": _empty,
    "overwritten": _overwrite_all,
    "overwritten-at-its-beginning": _overwrite_beginning,
    "overwritten-at-its-end": _overwrite_end,
    "removed": _remove,
    "a-directory": _replace_by_directory,
    "a-link-to-nothing": _replace_by_link,
}

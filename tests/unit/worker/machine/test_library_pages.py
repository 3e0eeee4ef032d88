"""Pages of libraries go back without losing what the process has changed in them, and the libraries still work."""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import psutil
import pytest

from worker.machine.library_pages import _unchanged, give_back_pages

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="run on Linux: others do not list their mappings")

#: Bytes of libraries' pages as in their files, before and after, and of changed pages, before and after.
Answers = SimpleQueue[tuple[int, int, int, int]]

PACKAGES = "/venv/site-packages"
#: A mapping as Linux describes it: its permissions, its path, and the size of its changed pages.
MAPPING = """\
7f0000000000-7f0001000000 {permissions} 00000000 fd:01 1234                      {path}
Size:              16384 kB
Rss:                8192 kB
Private_Dirty:         0 kB
Anonymous:      {changed:>8} kB
AnonHugePages:         0 kB
VmFlags: rd mr mw me
"""


def _mapping(*, permissions: str = "r-xp", path: str = f"{PACKAGES}/lance/lance.abi3.so", changed: int = 0) -> str:
    return MAPPING.format(permissions=permissions, path=path, changed=changed)


def _found(smaps: str) -> list[tuple[int, int]]:
    return list(_unchanged(smaps, smaps, PACKAGES))


def test_code_that_no_one_has_changed_is_found() -> None:
    assert _found(_mapping()) == [(0x7F0000000000, 16 << 20)]
    assert _found(_mapping(permissions="r--p")) == [(0x7F0000000000, 16 << 20)]
    assert len(_found(_mapping() + _mapping(path=f"{PACKAGES}/a b/c d.so.17"))) == 2


@pytest.mark.parametrize(
    "kept",
    [
        _mapping(changed=4),  # relocated addresses
        _mapping(changed=4) + _mapping(path=""),  # beside memory of no file
        _mapping(permissions="rw-p"),
        _mapping(permissions="r--s"),
        _mapping(path="/usr/lib/x86_64-linux-gnu/gconv/libGB.so"),  # which the C library may unload
        _mapping(path=f"{PACKAGES}/lance/lance.abi3.so").replace("7f0001000000", "7f0000001000"),
        _mapping(path=f"{PACKAGES}/data.bin"),
        _mapping(path=""),
    ],
)
def test_what_must_stay_is_left_alone(kept: str) -> None:
    assert _found(kept) == []
    assert len(_found(kept + _mapping())) == 1


def test_a_mapping_that_is_new_is_left_alone() -> None:
    """The loader first maps a library as a whole, and then parts of it that can be written."""
    grown = _mapping().replace("7f0001000000", "7f0002000000")
    assert list(_unchanged(grown, _mapping(), PACKAGES)) == []
    assert list(_unchanged(grown + _mapping(), _mapping(), PACKAGES)) == _found(_mapping())


def _mapped_bytes() -> tuple[int, int]:
    """Resident bytes of Arrow's libraries, and those of them that differ from the files."""
    maps = [each for each in psutil.Process().memory_maps() if "/pyarrow/" in each.path]
    return sum(int(each.rss) for each in maps), sum(int(each.anonymous) for each in maps)


def _use_give_back_and_use(answers: Answers, place: Path) -> None:
    import pyarrow as pa
    from pyarrow import compute, parquet

    def used() -> int:
        table = pa.table({"number": [*range(1_000)]})
        parquet.write_table(table, place / "numbers")
        return int(compute.sum(parquet.read_table(place / "numbers")["number"]).as_py())

    total = used()
    before, changed = _mapped_bytes()
    give_back_pages()
    after, still_changed = _mapped_bytes()
    assert used() == total == 499_500
    answers.put((before - changed, after - still_changed, changed, still_changed))


def test_a_library_works_after_its_pages_went_back(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    answers: Answers = context.SimpleQueue()
    child = context.Process(target=_use_give_back_and_use, args=(answers, tmp_path))
    child.start()
    child.join(60)
    assert child.exitcode == 0

    before, after, changed, still_changed = answers.get()

    assert before > 20_000_000
    assert after < before / 10
    assert still_changed == changed > 0

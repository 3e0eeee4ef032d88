"""What is asked of Landlock on kernels of each version, and what a worker is told that its kernel lacks."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from worker.parse.sandbox import confine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="run on Linux: other systems have no Landlock")
TCP, SIGNALS = "Landlock's rules for TCP", "Landlock's rules for signals"


class Kernel:
    """The calls of Landlock. They confine nothing."""

    def __init__(self, version: int, *, binds: bool = True) -> None:
        self.version, self.binds = version, binds
        #: The rights over files, over TCP and over signals that are taken away, as far as they are named.
        self.handled: tuple[int, ...] = ()
        self.allowed: list[int] = []
        self.rules = -1

    def syscall(self, number: int, *given: Any) -> int:
        if number == confine._CREATE_RULESET:
            if given[0] is None:
                return self.version
            self.handled = struct.unpack(f"{given[1].value // 8}Q", given[0])
            self.rules = os.open(os.devnull, os.O_RDONLY)
            return self.rules
        if number == confine._ADD_RULE:
            self.allowed.append(struct.unpack("=Qi", given[2])[0])
            return 0
        return 0 if self.binds else -1


@pytest.mark.parametrize(
    ("version", "file_rights", "further", "refused"),
    [
        (-1, 0, 0, ["Landlock"]),
        (0, 0, 0, ["Landlock"]),
        (1, 13, 0, [TCP, SIGNALS]),
        (2, 14, 0, [TCP, SIGNALS]),
        (3, 15, 0, [TCP, SIGNALS]),
        (4, 15, 1, [SIGNALS]),
        (5, 16, 1, [SIGNALS]),
        (6, 16, 2, []),
        (7, 16, 2, []),
    ],
)
def test_a_kernel_is_asked_for_all_that_its_version_knows_and_for_nothing_else(
    tmp_path: Path, version: int, file_rights: int, further: int, refused: list[str]
) -> None:
    kernel = Kernel(version)
    assert confine._restrict_disk(cast(Any, kernel), str(tmp_path), []) == refused
    assert kernel.handled == ((2**file_rights - 1, *[0b11] * further) if file_rights else ())
    # a kernel refuses a rule over a right that its rule set does not name
    assert all(rights < 2**file_rights for rights in kernel.allowed)


@pytest.mark.parametrize(("binds", "refused"), [(True, []), (False, ["Landlock"])])
def test_a_rule_set_is_closed_whether_or_not_it_binds(tmp_path: Path, *, binds: bool, refused: list[str]) -> None:
    kernel = Kernel(6, binds=binds)
    assert confine._restrict_disk(cast(Any, kernel), str(tmp_path), []) == refused
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(kernel.rules)

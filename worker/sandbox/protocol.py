"""The messages between a process and its helper.

A request is two lengths (4 bytes for its head, 8 for its data, big-endian), a head in JSON, and the data. An answer is
two lengths of 8 bytes, a head in JSON, and a payload, which JSON could make six times as long.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

#: The program of a helper.
PROGRAM = "worker.parse.sandbox.child"
REQUEST = struct.Struct(">IQ")
ANSWER = struct.Struct(">QQ")
#: Maximum bytes of an answer's head.
MAX_HEAD_BYTES = 64 << 20

#: The head of a message, in JSON. Its contents depend on the operation.
Head = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The cost limits of one request.

    `seconds` are processor time; `patience` times as many may pass on the clock, because the machine may be busy. An
    answer has a payload of at most `payload_bytes`. `slow` and `large` are the messages for a file's owner if its
    request takes more time or memory.
    """

    seconds: float
    memory_bytes: int
    payload_bytes: int
    patience: float
    slow: str
    large: str
    max_head_bytes: int = MAX_HEAD_BYTES


class Answer(NamedTuple):
    """A helper's answer."""

    head: Head
    payload: bytearray

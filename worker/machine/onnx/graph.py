"""Writes a model in ONNX's format: the few messages of its protocol buffers that a graph needs.

The numbers of fields and types are those of `onnx.proto`. The package `onnx` would add 20 MB to write this.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

#: Version of the format, and of the standard's operators.
_FORMAT, _OPERATORS = 8, 17
#: The domain of ONNX Runtime's own operators.
RUNTIME = "com.microsoft"
FLOAT, UINT8, INT8, INT32 = 1, 2, 3, 6
_TYPES = {"float32": FLOAT, "uint8": UINT8, "int8": INT8, "int32": INT32, "int64": 7}
_MORE = 0x80

#: Name, type and shape; a dimension with a name has any size.
Port = tuple[str, int, Sequence[int | str]]
Attribute = int | float | Sequence[int]


class OnnxGraph:
    """An ONNX graph under construction. Each value has a name, which the methods return."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._names = 0

    def constant(self, value: NDArray[np.generic] | np.generic) -> str:
        """Add a constant."""
        name = self._name()
        fields = [_number(1, size) for size in value.shape]
        fields += [_number(2, _TYPES[value.dtype.name]), _bytes(8, name), _bytes(9, value.tobytes())]
        self._parts.append(_bytes(5, b"".join(fields)))
        return name

    def node(self, operator: str, *inputs: str, domain: str = "", **attributes: Attribute) -> str:
        """Add an operator and return its only output. An input "" is omitted."""
        return self.nodes(operator, 1, *inputs, domain=domain, **attributes)[0]

    def nodes(self, operator: str, count: int, *inputs: str, domain: str = "", **attributes: Attribute) -> list[str]:
        """Add an operator with several outputs and return these."""
        outputs = [self._name() for _ in range(count)]
        fields = [_bytes(1, name) for name in inputs] + [_bytes(2, name) for name in outputs] + [_bytes(4, operator)]
        fields += [_bytes(5, _attribute(name, value)) for name, value in attributes.items()]
        self._parts.append(_bytes(1, b"".join([*fields, _bytes(7, domain)])))
        return outputs

    def model(self, inputs: Sequence[Port], outputs: Sequence[Port]) -> bytes:
        """Return the bytes of a file with this graph."""
        ports = [_port(11, port) for port in inputs] + [_port(12, port) for port in outputs]
        graph = b"".join([*self._parts, _bytes(2, "graph"), *ports])
        sets = [_bytes(8, _bytes(1, domain) + _number(2, version)) for domain, version in _SETS.items()]
        return b"".join([_number(1, _FORMAT), _bytes(7, graph), *sets])

    def _name(self) -> str:
        self._names += 1
        return f"v{self._names}"


_SETS = {"": _OPERATORS, RUNTIME: 1}


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return _bytes(1, name) + _key(2, 5) + struct.pack("<f", value) + _number(20, 1)
    if isinstance(value, int):
        return _bytes(1, name) + _number(3, value) + _number(20, 2)
    return _bytes(1, name) + b"".join(_number(8, each) for each in value) + _number(20, 7)


def _port(field: int, port: Port) -> bytes:
    name, type_, shape = port
    sizes = [_bytes(1, _number(1, size) if isinstance(size, int) else _bytes(2, size)) for size in shape]
    tensor = _number(1, type_) + _bytes(2, b"".join(sizes))
    return _bytes(field, _bytes(1, name) + _bytes(2, _bytes(1, tensor)))


def _bytes(field: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _key(field, 2) + _varint(len(data)) + data


def _number(field: int, value: int) -> bytes:
    return _key(field, 0) + _varint(value)


def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    groups = []
    while value >= _MORE:
        groups.append(value & (_MORE - 1) | _MORE)
        value >>= 7
    return bytes([*groups, value])

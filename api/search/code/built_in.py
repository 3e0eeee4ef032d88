"""Types and objects that a language brings along: what they have is nothing that a folder defines."""

from __future__ import annotations

from api.search.code.scripts import SCRIPTS

_PYTHON = frozenset(
    {
        *("bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "memoryview", "object"),
        *("range", "set", "str", "tuple", "type", "Counter", "OrderedDict", "defaultdict", "deque"),
        # as `typing` calls them
        *("DefaultDict", "Deque", "Dict", "FrozenSet", "List", "Set", "Tuple"),
    }
)
_SCRIPT = frozenset(
    {
        *("Array", "ArrayBuffer", "BigInt", "Boolean", "DataView", "Date", "Error", "Intl", "JSON", "Map", "Math"),
        *("Number", "Object", "Promise", "PromiseLike", "ReadonlyArray", "ReadonlyMap", "ReadonlySet", "Reflect"),
        *("RegExp", "Set", "String", "Symbol", "TypeError", "URL", "URLSearchParams", "Uint8Array", "WeakMap"),
        *("WeakRef", "WeakSet", "bigint", "boolean", "console", "number", "string", "symbol"),
    }
)


def is_built_in(name: str, language: str | None) -> bool:
    """Whether the language brings a type or an object of this name, unless the code defines it."""
    if language == "python":
        return name.rpartition(".")[2] in _PYTHON
    return language in SCRIPTS and name in _SCRIPT

"""What comes from outside a folder: types and objects of a language, and imports whose place in it is not known.

Repositories hold several packages, which import each other by names that only their settings tell.
"""

from __future__ import annotations

import posixpath
import sys

from api.search.code.scripts import SCRIPTS

_PYTHON = frozenset(
    {
        *("bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "memoryview", "object"),
        *("range", "set", "str", "tuple", "type", "Counter", "OrderedDict", "defaultdict", "deque"),
        # as `typing` calls them
        *("DefaultDict", "Deque", "Dict", "FrozenSet", "List", "Set", "Tuple"),
    }
)
#: Modules of Python that have them.
MODULES = frozenset({"builtins", "collections", "typing", "typing_extensions"})
_SCRIPT = frozenset(
    {
        *("Array", "ArrayBuffer", "BigInt", "Boolean", "DataView", "Date", "Error", "Intl", "JSON", "Map", "Math"),
        *("Number", "Object", "Promise", "PromiseLike", "ReadonlyArray", "ReadonlyMap", "ReadonlySet", "Reflect"),
        *("RegExp", "Set", "String", "Symbol", "TypeError", "URL", "URLSearchParams", "Uint8Array", "WeakMap"),
        *("WeakRef", "WeakSet", "bigint", "boolean", "console", "number", "string", "symbol"),
    }
)
#: Modules of Node.js, which no folder is meant by.
_OF_NODE = frozenset(
    {
        *("assert", "buffer", "child_process", "cluster", "console", "crypto", "dgram", "dns", "events", "fs", "http"),
        *("http2", "https", "net", "os", "path", "perf_hooks", "process", "querystring", "readline", "stream"),
        *("string_decoder", "timers", "tls", "tty", "url", "util", "v8", "vm", "worker_threads", "zlib"),
    }
)


def is_built_in(name: str, language: str | None) -> bool:
    """Whether the language brings a type or an object of this name, unless the code defines it.

    In Python also as a member of a module or of something else: the caller knows which.
    """
    if language == "python":
        return name.rpartition(".")[2] in _PYTHON
    return language in SCRIPTS and name in _SCRIPT


def may_be(path: str, language: str | None, module: str) -> bool:
    """Whether a file may belong to the module that a file of this language imports: its path has the module's names."""
    parts = _parts(module, language)
    places = posixpath.splitext(path)[0].split("/")
    for part in parts:
        if part not in places:
            return False
        places = places[places.index(part) + 1 :]
    return bool(parts)


def _parts(module: str, language: str | None) -> list[str]:
    """The names of a module that a path must have, in their order; none if it is certainly from outside."""
    if module.startswith("."):
        return []
    if language in SCRIPTS:
        whole, *rest = parts = [part for part in module.split("/") if part]
        if whole in _OF_NODE or whole.startswith("node:"):
            return []
        return rest if whole.startswith(("@", "~", "#")) else parts
    top = module.partition(".")[0]
    # what the other parts name may be passed on from elsewhere in the package
    return [] if top in sys.stdlib_module_names else [top]

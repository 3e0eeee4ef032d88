"""Imports and exports of JavaScript and TypeScript files, as modules of either kind."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Generator, Iterator

from api.search.code.imports import LAYOUTS, Imported, Imports, aliased

#: Languages whose modules are files that import each other by paths.
SCRIPTS = frozenset({"javascript", "typescript", "tsx"})
#: What a module is as a whole: its default export, or what it assigns to `module.exports`.
DEFAULT = "default"
_EXTENSIONS = (".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".d.ts", ".mts", ".cts")
#: Characters of an object of exports that are read, folders that a path may lead down or up.
_MAX_OBJECT = 20_000
_MAX_DOWN, _MAX_UP = 8, 6

_FROM = re.compile(
    r"(?:^|;)[ \t]*(import|export)\b(\s{0,99}(?:(?:type|typeof|defer|source)\s{1,99})?"
    r"(?:[A-Za-z_$][\w$]{0,99}\s{0,99}(?:,\s{0,99})?)?"
    r"(?:\*\s{0,99}(?:as\s{1,99}[\w$]{1,99}\s{0,99})?|\{[^{}]*\}\s{0,99})?)\bfrom\b",
    re.MULTILINE,
)
_REQUIRE = re.compile(
    r"(?:\b(?:const|let|var|import)[ \t]+|,[ \t]*(?:\n[ \t]*)?)(\{[^{}]*\}|\w+)[ \t]*=[ \t]*"
    r"(?:require|await[ \t]+import)[ \t]*\("
)
_REEXPORT = re.compile(
    r"\b(?:module[ \t]*\.[ \t]*)?exports(?:[ \t]*\.[ \t]*(\w+))?[ \t]*=[ \t]*require[ \t]*\(|\b__exportStar\(require\("
)
_MODULE = re.compile(r"""\s*["']([^"'\n]{1,500})["']""")
#: What is taken of a required module, and whether more is done with it.
_TAKEN = re.compile(r"\s*\)[ \t]*(?:\.[ \t]*(\w+)\b)?[ \t]*([.(\[]?)")
_NAMED = re.compile(r"\{([^{}]*)\}")
_ALL_AS = re.compile(r"\*[ \t]+as[ \t]+(\w+)")
_LOCAL = re.compile(r"^\s*(?:type\s+)?(\w+)\s*(?:,|$)")

_EXPORT_DEFAULT = re.compile(
    r"^[ \t]*export[ \t]+default[ \t]+"
    r"(?:(?:async[ \t]+|abstract[ \t]+)?(?:function\b(?:[ \t]*\*)?[ \t]*|class[ \t]+)(\w+)"
    r"|(\w+)[ \t]*(?:;|$)|([^\n;{]{1,200}))",
    re.MULTILINE,
)
_EXPORT_LIST = re.compile(r"^[ \t]*export[ \t]*(?:type[ \t]*)?\{([^{}]*)\}(?!\s*from\b)", re.MULTILINE)
_WHOLE = re.compile(
    r"\bmodule[ \t]*\.[ \t]*exports[ \t]*=[ \t]*(?:exports[ \t]*=[ \t]*)?"
    r"(?:(?:async[ \t]+)?function\b(?:[ \t]*\*)?[ \t]*(\w+)|class[ \t]+(\w+)|(\w+)[ \t]*(?:;|$)|(\{)|([^\n;{]{1,200}))",
    re.MULTILINE,
)
#: A variable that is what the module exports, as `var app = module.exports = {}`.
_WHOLE_HERE = re.compile(
    r"\b(?:const|let|var)[ \t]+(\w+)[ \t]*=[ \t]*(?:exports[ \t]*=[ \t]*)?module[ \t]*\.[ \t]*exports[ \t]*="
)
_EXPORTED = re.compile(
    r"\b(?:module[ \t]*\.[ \t]*)?exports[ \t]*\.[ \t]*(\w+)[ \t]*=[ \t]*(\w+)[ \t]*(?:;|,|$)", re.MULTILINE
)
_ENTRY = re.compile(r"\s*(\w+)\s*(?::\s*(\w+)\s*)?$")
_BRACKET = re.compile(r"[{}()\[\],]")
_WORD = re.compile(r"(?<![\w.])[A-Za-z_$][\w$]*")
#: What shows that a file is a module, and not a script whose names all others see.
_IS_MODULE = re.compile(
    r"^[ \t]*(?:import|export)\b|\bmodule[ \t]*\.[ \t]*exports\b|\bexports[ \t]*[.\[]", re.MULTILINE
)


def read_scripts(text: str, code: str) -> Imports:
    """Read what a file imports and exports from its text, and its code without strings and comments."""
    imports = Imports()
    for found in _FROM.finditer(code):
        if module := _MODULE.match(text, found.end()):
            named = _clause(found[2], module[1], DEFAULT, imports)
            _add(imports, named)
            imports.passed_on |= {*named} if found[1] == "export" else set()
    for found in _REQUIRE.finditer(code):
        if required := _required(text, code, found.end()):
            _add(imports, _clause(found[1], required.module, required.name, imports))
    for found in _REEXPORT.finditer(code):
        if required := _required(text, code, found.end()):
            imports.add(found[1] or DEFAULT, required)
            imports.passed_on.add(found[1] or DEFAULT)
            imports.everything += [] if found[1] or required.name else [required.module]
    for alias, name in _exports(code):
        imports.export(alias, name)
    for alias in imports.passed_on & imports.exports.keys():
        # one branch defines what another one requires
        imports.export(alias, alias)
    for found in [*_EXPORT_DEFAULT.finditer(code), *_WHOLE.finditer(code)]:
        # an expression, such as `wrapped(Button)`
        imports.wrapped |= set(_WORD.findall(found[found.re.groups] or ""))
    imports.is_module = bool(imports.named or imports.everything or _IS_MODULE.search(code))
    return imports


def _add(imports: Imports, named: dict[str, Imported]) -> None:
    for alias, imported in named.items():
        imports.add(alias, imported)


def _required(text: str, code: str, start: int) -> Imported | None:
    """The module that `require(` brings; None if something else is made of it."""
    module = _MODULE.match(text, start)
    taken = _TAKEN.match(code, module.end()) if module else None
    return Imported(module[1], taken[1]) if module and taken and not taken[2] else None


def _clause(clause: str, module: str, whole: str | None, imports: Imports) -> dict[str, Imported]:
    """The names that one import brings into a file. `whole` is what a name alone stands for."""
    named = {alias: Imported(module, name) for group in _NAMED.findall(clause) for name, alias in aliased(group)}
    if space := _ALL_AS.search(clause):
        named[space[1]] = Imported(module, None)
    elif "*" in clause:
        imports.everything.append(module)
    if local := _LOCAL.match(clause):
        named[local[1]] = Imported(module, whole)
    return named


def _exports(code: str) -> Iterator[tuple[str, str]]:
    """The names that others get from a file, each with its name there, as far as they may differ."""
    here = [found[1] for found in _WHOLE_HERE.finditer(code)]
    for found in _EXPORTED.finditer(code):
        yield found[1], found[2]
    for found in _EXPORT_LIST.finditer(code):
        yield from ((alias, name) for name, alias in aliased(found[1]))
    end = 0
    for found in _WHOLE.finditer(code):
        if found[4]:
            # one within another is part of what was read
            end = (yield from _entries(code, found.end())) if found.end() > end else end
        elif (name := found[1] or found[2] or found[3]) and not here:
            yield DEFAULT, name
    yield from ((DEFAULT, name) for name in here)
    for found in _EXPORT_DEFAULT.finditer(code):
        if name := found[1] or found[2]:
            yield DEFAULT, name


def _entries(code: str, start: int) -> Generator[tuple[str, str], None, int]:
    """The names of an object, each with the name that it holds, up to its closing brace. Returns where that is."""
    depth, begin = 0, start
    for found in _BRACKET.finditer(code, start, start + _MAX_OBJECT):
        sign = found[0]
        if sign in "{([":
            depth += 1
        elif sign != ",":
            depth -= 1
        if depth < 0 or (depth == 0 and sign == ","):
            if entry := _ENTRY.match(code[begin : found.start()]):
                yield entry[1], entry[2] or entry[1]
            begin = found.end()
        if depth < 0:
            return found.end()
    return start + _MAX_OBJECT


def script_paths(module: str, path: str) -> list[str]:
    """The paths that a module may have, the likeliest first, as a file at `path` imports it."""
    if module.startswith("."):
        places = [posixpath.normpath(posixpath.join(posixpath.dirname(path), module))]
    else:
        inner = module[2:] if module.startswith(("@/", "~/")) else module
        places = [posixpath.join(root, inner) for root in LAYOUTS]
    found = []
    for place in places:
        if place == ".":
            found += [f"index{each}" for each in _EXTENSIONS]
            continue
        stem, extension = posixpath.splitext(place)
        whole = [place, *(stem + each for each in _EXTENSIONS)] if extension in _EXTENSIONS else []
        found += [*whole, *(place + each for each in _EXTENSIONS), *(f"{place}/index{each}" for each in _EXTENSIONS)]
    return found


def specifiers(path: str) -> list[str]:
    """The names that imports may use for the module of a file, from anywhere around it."""
    stem, extension = posixpath.splitext(path)
    stem = stem.removesuffix(".d")
    forms = [stem, path, *([stem + ".js"] if extension not in {".js", ""} else [])]
    folder, name = posixpath.split(stem)
    ups = ["./", *("../" * number for number in range(1, _MAX_UP + 1))]
    found = []
    if name == "index":
        forms.append(folder)
        found += [".", *(up.rstrip("/") for up in ups), *ups]
    for form in filter(None, forms):
        parts = form.split("/")
        ends = ["/".join(parts[-number:]) for number in range(1, min(len(parts), _MAX_DOWN) + 1)]
        found += [up + end for end in ends for up in ups]
        found += [begin + end for end in ends for begin in ("", "@/", "~/")]
    return list(dict.fromkeys(found))

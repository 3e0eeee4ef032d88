"""The names that the imports of a file of code bring into it."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

#: Folders in which the modules of a folder often lie.
LAYOUTS = ("", "src", "lib", "python")
#: What a name may be beside the first, in one branch or another.
_MAX_BRANCHES = 8
#: Folders above a file in which its modules are looked for.
_MAX_ABOVE = 12

_FROM = re.compile(r"^[ \t]*from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^()]*\)|[^\n(]*)", re.MULTILINE)
_IMPORT = re.compile(r"^[ \t]*import[ \t]+([^\n]*)", re.MULTILINE)
_ALIASED = re.compile(r"^(?:type\s+)?([\w.]+)(?:(?:\s+as\s+|\s*:\s*)(\w+))?$")

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Imported:
    """A name of a module; without one, the module itself."""

    module: str
    name: str | None


@dataclass(slots=True)
class Imports:
    """Imports of a file by their names there, and the modules of which it imports everything."""

    named: dict[str, Imported] = field(default_factory=dict)
    everything: list[str] = field(default_factory=list)
    #: What else a name may be, if branches import it from several modules.
    others: dict[str, list[Imported]] = field(default_factory=dict)
    #: Those within functions: where each stands, and the name that it gives.
    inner: list[tuple[int, str, Imported]] = field(default_factory=list)
    #: What others get by a name, if it has another name in the file: by several if branches export them.
    exports: dict[str, list[str]] = field(default_factory=dict)
    #: Names that a file of a script gets from others and passes on.
    passed_on: set[str] = field(default_factory=set)
    #: Names in the expression that a script exports by default.
    wrapped: set[str] = field(default_factory=set)
    #: Whether the file has names of its own, which others must import.
    is_module: bool = True
    #: The package or namespace that the file says it belongs to.
    package: str = ""

    def every(self) -> Iterator[tuple[str, Imported]]:
        """All that is imported, with the names that it has in the file."""
        yield from self.named.items()
        yield from ((alias, each) for alias, others in self.others.items() for each in others)
        yield from ((alias, imported) for _, alias, imported in self.inner)

    def choices(self, alias: str) -> list[Imported]:
        """The possible meanings of a name by the imports outside of functions."""
        return [self.named[alias], *self.others.get(alias, ())] if alias in self.named else []

    def add(self, alias: str, imported: Imported) -> None:
        """Add what a name is, or what else it may be."""
        if imported != self.named.setdefault(alias, imported):
            _add(self.others.setdefault(alias, []), imported)

    def export(self, alias: str, name: str) -> None:
        """Add a name that others may get by another one."""
        _add(self.exports.setdefault(alias, []), name)


def _add(known: list[_T], more: _T) -> None:
    if len(known) < _MAX_BRANCHES and more not in known:
        known.append(more)


def read_imports(code: str, functions: Iterable[tuple[int, int]]) -> Imports:
    """Read the imports of a file of Python from its code. `functions` are where each begins and ends in it."""
    imports = Imports()
    spans = outermost(functions)
    for place, alias, imported in sorted(_python(code, imports), key=lambda each: each[0]):
        around = bisect_right(spans, (place, len(code))) - 1
        if around >= 0 and place < spans[around][1]:
            imports.inner.append((place, alias, imported))
        else:
            imports.add(alias, imported)
    return imports


def outermost(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans that lie in no other, in order."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not found or first >= found[-1][1]:
            found.append((first, last))
    return found


def _python(code: str, imports: Imports) -> Iterator[tuple[int, str, Imported]]:
    for found in _FROM.finditer(code):
        module = found[1]
        yield from ((found.start(), alias, Imported(module, name)) for name, alias in aliased(found[2].strip("()")))
        if found[2].strip() == "*":
            imports.everything.append(module)
    for found in _IMPORT.finditer(code):
        for name, alias in aliased(found[1]):
            # `import a.b` brings `a`, of which `b` is an attribute
            whole = name.partition(".")[0] if alias == name else name
            yield found.start(), whole if alias == name else alias, Imported(whole, None)


def aliased(clause: str) -> Iterator[tuple[str, str]]:
    """The names of a list of imports, each with the name that it gets."""
    for part in clause.split(","):
        if found := _ALIASED.match(part.strip()):
            yield found[1], found[2] or found[1]


def module_paths(module: str, path: str, root_name: str) -> list[str]:
    """The paths that a module of Python may have, the likeliest first, as a file at `path` imports it.

    The folder may be a package itself: then imports begin with its `root_name`.
    """
    folder = posixpath.dirname(path)
    dots = len(module) - len(module.lstrip("."))
    below = module[dots:].replace(".", "/")
    if dots:
        for _ in range(dots - 1):
            folder = posixpath.dirname(folder)
        return _python_files(folder, below)
    above = [folder]
    while above[-1] and len(above) < _MAX_ABOVE:
        above.append(posixpath.dirname(above[-1]))
    if above[-1]:
        above.append("")
    # a file finds modules beside itself last: what is imported by a whole name lies below a root
    found = [each for root in [*above[::-1], *LAYOUTS[1:]] for each in _python_files(root, below)]
    top, _, inner = below.partition("/")
    return [*found, *_python_files("", inner)] if top == root_name else found


def package_above(path: str, module: str, language: str | None) -> str | None:
    """The file by which the folder that holds a module of Python would be a package: no import begins within one."""
    if language != "python" or module.startswith("."):
        return None
    root = posixpath.dirname(path)
    for _ in range(module.count(".") + path.endswith("/__init__.py")):
        root = posixpath.dirname(root)
    return posixpath.join(root, "__init__.py") if root else None


def _python_files(root: str, below: str) -> list[str]:
    if not below:
        return [posixpath.join(root, "__init__.py")]
    joined = posixpath.join(root, below)
    return [f"{joined}.py", f"{joined}/__init__.py", f"{joined}.pyi"]

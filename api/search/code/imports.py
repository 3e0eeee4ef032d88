"""What the imports of a file of code bring into it, by the names that they have there."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

#: Languages whose modules are files that import each other by paths.
SCRIPTS = frozenset({"javascript", "typescript", "tsx"})
_EXTENSIONS = (".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".d.ts", ".mts")
#: Folders in which the modules of a folder often lie.
_LAYOUTS = ("", "src", "lib", "python")
#: Folders above a file in which its modules are looked for.
_MAX_ABOVE = 12

_FROM = re.compile(r"^[ \t]*from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^()]*\)|[^\n(]*)", re.MULTILINE)
_IMPORT = re.compile(r"^[ \t]*import[ \t]+([^\n]*)", re.MULTILINE)
_SCRIPT_FROM = re.compile(r"^[ \t]*(?:import|export)\b([^;\"'`()=]{0,600}?)\bfrom\b", re.MULTILINE)
_REQUIRE = re.compile(r"\b(?:const|let|var)[ \t]+(\{[^{}]*\}|\w+)[ \t]*=[ \t]*require[ \t]*\(")
_MODULE = re.compile(r"""\s*["']([^"'\n]{1,500})["']""")
_NAMED = re.compile(r"\{([^{}]*)\}")
_ALL_AS = re.compile(r"\*[ \t]+as[ \t]+(\w+)")
_DEFAULT = re.compile(r"^\s*(?:type\s+)?(\w+)\s*(?:,|$)")
_ALIASED = re.compile(r"^(?:type\s+)?([\w.]+)(?:(?:\s+as\s+|\s*:\s*)(\w+))?$")


@dataclass(frozen=True, slots=True)
class Imported:
    """A name of a module; without one, the module itself."""

    module: str
    name: str | None


@dataclass(slots=True)
class Imports:
    """What a file imports, by its name there, and the modules of which it imports everything."""

    named: dict[str, Imported] = field(default_factory=dict)
    everything: list[str] = field(default_factory=list)
    #: Those within functions: where each stands, and the name that it gives.
    inner: list[tuple[int, str, Imported]] = field(default_factory=list)
    #: The package or namespace that the file says it belongs to.
    package: str = ""

    def aliases(self, names: Collection[str]) -> set[str]:
        """Other names that the file gives to what has these names."""
        pairs = [*self.named.items(), *((alias, imported) for _, alias, imported in self.inner)]
        return {alias for alias, imported in pairs if imported.name in names and imported.name != alias}


def read_imports(text: str, code: str, language: str | None) -> Imports:
    """Read the imports of a file from its text, and its code without strings and comments."""
    imports = Imports()
    if language == "python":
        _read_python(code, imports)
    elif language in SCRIPTS:
        _read_scripts(text, code, imports)
    return imports


def _read_python(code: str, imports: Imports) -> None:
    for found in _FROM.finditer(code):
        module = found[1]
        for name, alias in _aliased(found[2].strip("()")):
            imports.named[alias] = Imported(module, name)
            if found[0][0] in " \t":
                imports.inner.append((found.start(), alias, imports.named[alias]))
        if found[2].strip() == "*":
            imports.everything.append(module)
    for found in _IMPORT.finditer(code):
        for name, alias in _aliased(found[1]):
            # `import a.b` brings `a`, of which `b` is an attribute
            whole = name.partition(".")[0] if alias == name else name
            imports.named[whole if alias == name else alias] = Imported(whole, None)


def _read_scripts(text: str, code: str, imports: Imports) -> None:
    clauses = [(found.end(), found[1]) for found in _SCRIPT_FROM.finditer(code)]
    clauses += [(found.end(), found[1]) for found in _REQUIRE.finditer(code)]
    for end, clause in clauses:
        module = _MODULE.match(text, end)
        if module is None:
            continue
        for group in _NAMED.findall(clause):
            for name, alias in _aliased(group):
                imports.named[alias] = Imported(module[1], name)
        if whole := _ALL_AS.search(clause):
            imports.named[whole[1]] = Imported(module[1], None)
        elif "*" in clause:
            imports.everything.append(module[1])
        if default := _DEFAULT.match(clause):
            imports.named[default[1]] = Imported(module[1], None)


def _aliased(clause: str) -> Iterator[tuple[str, str]]:
    for part in clause.split(","):
        if found := _ALIASED.match(part.strip()):
            yield found[1], found[2] or found[1]


def module_paths(module: str, path: str, language: str | None) -> list[str]:
    """The paths that a module may have, the likeliest first, as a file at `path` imports it."""
    folder = posixpath.dirname(path)
    if language in SCRIPTS:
        return _script_paths(module, folder)
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
    return [each for root in [*above[::-1], *_LAYOUTS[1:]] for each in _python_files(root, below)]


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


def _script_paths(module: str, folder: str) -> list[str]:
    if module.startswith("."):
        places = [posixpath.normpath(posixpath.join(folder, module))]
    else:
        inner = module[2:] if module.startswith(("@/", "~/")) else module
        places = [posixpath.join(root, inner) for root in _LAYOUTS]
    found = []
    for place in places:
        stem, extension = posixpath.splitext(place)
        whole = [place, *(stem + each for each in _EXTENSIONS)] if extension in _EXTENSIONS else []
        found += [*whole, *(place + each for each in _EXTENSIONS), *(f"{place}/index{each}" for each in _EXTENSIONS)]
    return found

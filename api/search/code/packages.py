"""Names in languages whose files share packages without importing each other: Java, C#, Go and Rust."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from api.search.code.imports import Imported, Imports

if TYPE_CHECKING:
    from worker.state.search.code_texts import Defined

#: Languages in which a file sees what its package, namespace or crate defines.
LANGUAGES = frozenset({"java", "csharp", "go", "rust", "php"})
#: Those whose imports show what the bases of a class are.
SEEN_BASES = LANGUAGES - {"php"}
#: Those whose files say what namespace they belong to, wherever they are.
WITH_NAMESPACES = frozenset({"csharp", "php"})
#: Those in which a bare name may be a member of the class around it.
WITH_BARE_MEMBERS = frozenset({"java", "csharp"})
#: Words for the class around a call and its base, as other languages have them.
OWN_WORDS = {("php", "static"): "self", ("php", "parent"): "super"}
#: Those in which a class has parts in several places.
WITH_PARTS = frozenset({"csharp", "rust"})
#: Names that one import of Rust may bring.
_MAX_NAMES = 500
#: The longest import of Rust that is read.
_MAX_USE_CHARACTERS = 4_000

_JAVA = re.compile(r"^[ \t]*import[ \t]+(?:static[ \t]+)?([\w.]{1,500})\.(\w{1,200}|\*)[ \t]*;", re.MULTILINE)
_JAVA_PACKAGE = re.compile(r"^[ \t]*package[ \t]+([\w.]+)", re.MULTILINE)
_CSHARP = re.compile(
    r"^[ \t]*(?:global[ \t]+)?using[ \t]+(?:static[ \t]+)?(?:(\w+)[ \t]*=[ \t]*)?([\w.]+)[ \t]*;", re.MULTILINE
)
_CSHARP_PACKAGE = re.compile(r"^[ \t]*namespace[ \t]+([\w.]+)", re.MULTILINE)
_GO = re.compile(r"^import[ \t]*(?:\(([^()]*)\)|([^\n(]*))", re.MULTILINE)
_GO_LINE = re.compile(r"""(?:(?<![\w.])([\w.]{1,99})[ \t]{1,9})?["`]([^"`\n]{1,500})["`]""")
_GO_VERSION = re.compile(r"/v\d+$|\.v\d+$")
_GO_PACKAGE = re.compile(r"^package[ \t]+(\w+)", re.MULTILINE)
_PHP = re.compile(
    r"^[ \t]*use[ \t]+(?:function[ \t]+|const[ \t]+)?([\w\\][^;()={}]{0,500}(?:\{[^{}]*\}[ \t]*)?);", re.MULTILINE
)
_PHP_NAME = re.compile(r"(?:(?:function|const)\s{1,9})?([\w\\]{1,500})(?:\s{1,9}as\s{1,9}(\w{1,200}))?")
_PHP_PACKAGE = re.compile(r"^[ \t]*namespace[ \t]+([\w\\]+)", re.MULTILINE)
_RUST = re.compile(r"(?:^|[{};])[ \t]*(?:pub(?:\([^()\n]*\))?[ \t]+)?use[ \t\n]+", re.MULTILINE)
_RUST_PART = re.compile(r"[{},]|[^{},]+")
_RUST_ROOTS = frozenset({"crate", "self", "super"})
#: Files of Rust whose module is their folder.
_RUST_FOLDERS = ("lib", "main", "mod")
_RUST_BUILT_IN = frozenset({"std", "core", "alloc"})
#: Folders above a file of Rust in which the root of its crate is looked for.
_MAX_ABOVE = 8


def read_package_imports(text: str, code: str, language: str | None) -> Imports:
    """Read the imports of a file, and the package that it says it belongs to."""
    imports = Imports()
    if language == "java":
        _read_java(code, imports)
    elif language == "csharp":
        _read_csharp(code, imports)
    elif language == "go":
        _read_go(text, code, imports)
    elif language == "php":
        _read_php(code, imports)
    else:
        _read_rust(code, imports)
    return imports


def _read_java(code: str, imports: Imports) -> None:
    if found := _JAVA_PACKAGE.search(code):
        imports.package = found[1]
    for module, name in _JAVA.findall(code):
        if name == "*":
            imports.everything.append(module)
        else:
            imports.named[name] = Imported(module, name)


def _read_csharp(code: str, imports: Imports) -> None:
    if found := _CSHARP_PACKAGE.search(code):
        imports.package = found[1]
    for alias, module in _CSHARP.findall(code):
        if alias:
            scope, _, name = module.rpartition(".")
            imports.named[alias] = Imported(scope, name)
        else:
            imports.everything.append(module)


def _read_php(code: str, imports: Imports) -> None:
    if found := _PHP_PACKAGE.search(code):
        imports.package = found[1]
    for found in _PHP.finditer(code):
        prefix, is_group, names = found[1].rpartition("{")
        for part in names.strip("} \t").split(","):
            if named := _PHP_NAME.fullmatch(part.strip()):
                module, _, name = (prefix.strip() * bool(is_group) + named[1]).strip("\\").rpartition("\\")
                imports.named[named[2] or name] = Imported(module, name)


def _read_go(text: str, code: str, imports: Imports) -> None:
    if package := _GO_PACKAGE.search(code):
        imports.package = package[1]
    for found in _GO.finditer(code):
        # strings are blank in the code
        for alias, module in _GO_LINE.findall(text[found.start() : found.end()]):
            if alias == ".":
                imports.everything.append(module)
            elif alias != "_":
                name = posixpath.basename(_GO_VERSION.sub("", module)).rpartition("-")[2]
                imports.named[name if alias in {"", "import"} else alias] = Imported(module, None)


def _read_rust(code: str, imports: Imports) -> None:
    for tree in _rust_trees(code):
        for path in _rust_paths(tree):
            whole, _, alias = path.partition(" as ")
            module, _, name = whole.strip().rpartition("::")
            if name == "*":
                imports.everything.append(module)
            elif name == "self":
                last = module.rpartition("::")[2]
                imports.named.setdefault(alias.strip() or last, Imported(module.rpartition("::")[0], last))
            elif name:
                # a module within the file may import again what the file does
                imports.named.setdefault(alias.strip() or name, Imported(module, name))


def _rust_trees(code: str) -> Iterator[str]:
    """The texts between each `use` and its semicolon."""
    end = 0
    for found in _RUST.finditer(code):
        begin = found.end()
        if begin >= end and (semicolon := code.find(";", begin, begin + _MAX_USE_CHARACTERS)) > begin:
            end = semicolon
            yield code[begin:end]


def _rust_paths(tree: str) -> Iterator[str]:
    """The paths of `a::{b, c::{d, e as f}}`, each in full."""
    prefixes, last = [""], ""
    for number, part in enumerate(_RUST_PART.findall(" ".join(tree.split()))):
        if number > _MAX_NAMES:
            return
        if part == "{":
            prefixes.append(prefixes[-1] + last)
            last = ""
        elif part in {",", "}"}:
            if last:
                yield prefixes[-1] + last
            last = ""
            if part == "}" and len(prefixes) > 1:
                prefixes.pop()
        else:
            last = part.strip()
    if last:
        yield prefixes[-1] + last


def qualified_by(module: str, language: str) -> str:
    """A module as a path with slashes, without what only says where a path begins."""
    parts = [part for part in re.split(r"::|[./\\]", module) if part]
    if language == "rust":
        while parts and parts[0] in _RUST_ROOTS:
            parts.pop(0)
    return "/".join(parts)


def home_of(path: str, package: str | None, defined: Defined, language: str) -> str:
    """The home of a definition, as a path with slashes: its package or folder, and the definitions around it."""
    if language in WITH_NAMESPACES:
        scope, stated = qualified_by(defined.scope, language), qualified_by(package or "", language)
        first, _, rest = scope.partition("/")
        if stated and first == stated.rpartition("/")[2]:
            # the braces of a namespace are a scope, which may have the last part of its name alone
            scope = rest
        home = "" if scope.startswith(stated or "/") else stated
        return "/".join(filter(None, (home, scope)))
    folder = posixpath.dirname(path)
    if language == "rust":
        folder = _rust_folder(path)
    return "/".join(filter(None, (folder, defined.scope)))


def rust_files(module: str, path: str) -> tuple[list[str], list[str]]:
    """The paths that a module may have, as a file at `path` names it: in its own crate, and in another one's folder."""
    first, *rest = module.split("::")
    above = [posixpath.dirname(path)]
    while above[-1] and len(above) < _MAX_ABOVE:
        above.append(posixpath.dirname(above[-1]))
    crates = [each for each in above if posixpath.basename(each) == "src"]
    crates += [joined for each in above for joined in (posixpath.join(each, "src"), each)]
    here = _rust_folder(path)
    if first == "crate":
        return _rust_paths_of(crates, rest), []
    if first in {"self", "super"}:
        ups = [first, *rest].count("super")
        for _ in range(ups):
            here = posixpath.dirname(here)
        return _rust_paths_of([here], rest[ups - (first == "super") :]), []
    if not first or first in _RUST_BUILT_IN:
        return [], []
    names = dict.fromkeys((first, first.replace("_", "-")))
    beside = [posixpath.join(each, way, name, "src") for each in above for way in ("", "crates") for name in names]
    # the first part may also be the name of the own crate
    return _rust_paths_of([here, *crates], [first, *rest], 1), _rust_paths_of([*beside, *crates], rest)


def _rust_folder(path: str) -> str:
    """The folder of the modules below a file."""
    folder, name = posixpath.split(path)
    stem = posixpath.splitext(name)[0]
    return folder if stem in _RUST_FOLDERS else posixpath.join(folder, stem)


def _rust_paths_of(roots: Sequence[str], parts: list[str], known: int = 0) -> list[str]:
    """Where a module may be below some roots. The last part may stand in the file of the one around it, if not `known`.

    `known`: how many parts, at the beginning, are files or folders.
    """
    within = [parts[:-1]] if len(parts) > known else []
    found = [posixpath.join(root, *each) for each in (parts, *within) for root in roots]
    return [
        path
        for at in dict.fromkeys(found)
        for path in (f"{at}.rs" if at else "", *(posixpath.join(at, f"{name}.rs") for name in _RUST_FOLDERS))
        if path
    ]


def is_in(home: str, module: str) -> bool:
    """Whether a place in the folder is the one that an import names, as far as both say."""
    return bool(module) and f"/{home}".endswith(f"/{module}")


def is_go_import(folder: str, module: str, root: str | None) -> bool:
    """Whether an import of Go means a folder. `root` is the module that the index says it is."""
    if root is not None and (module == root or module.startswith(root + "/")):
        return folder == module[len(root) :].strip("/")
    return bool(folder) and f"/{module}".endswith(f"/{folder}")


def around_of(package: str, language: str) -> Iterable[str]:
    """A namespace and those around it whose names it sees: all of them in C#, none in PHP."""
    if language == "php":
        return [qualified_by(package, language)]
    parts = package.split(".")
    return ["/".join(parts[:number]) for number in range(len(parts), 0, -1)] if package else []

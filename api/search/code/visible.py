"""Meanings of names that a file of Java, C#, Go or Rust does not define itself: by its imports and its package."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from api.search.code.code_of_file import CodeOfFile, Meaning
from api.search.code.imports import Imported
from api.search.code.packages import WITH_NAMESPACES, around_of, home_of, is_go_import, is_in, qualified_by, rust_files
from worker.state.search.code_texts import Defined

#: Imports that one name is followed through.
_MAX_PASSED = 100


class CodeReader(Protocol):
    """Lookups in other files."""

    def named(self, name: str) -> tuple[Defined, ...]:
        """The definitions of a name."""
        ...

    def file(self, file_id: UUID) -> CodeOfFile | None:
        """A file."""
        ...

    def path(self, file_id: UUID) -> str | None:
        """Its path."""
        ...

    def files_at(self, paths: Sequence[str]) -> list[CodeOfFile]:
        """The files at some of these paths, in this order."""
        ...

    def go_module(self) -> str | None:
        """The module name of the folder in `go.mod`."""
        ...


def visible(reader: CodeReader, code: CodeOfFile, name: str) -> Meaning:
    """The meaning of a name by the imports of a file, and by the package that it is in."""
    imported = code.imports.named.get(name)
    if imported is not None and imported.name is not None:
        return in_module(reader, code, imported)
    candidates = _candidates(reader, code, name)
    near = [each for each in candidates if _is_near(reader, code, each)]
    if near:
        return Meaning(tuple(near), "resolved")
    members = _candidates(reader, code, name, members=True) if code.imports.everything else ()
    for module in code.imports.everything:
        # also those of a class, whose path is longer than that of its package
        if found := [each for each in members if _is_of(reader, code, each, module)]:
            return Meaning(tuple(found), "resolved")
        if passed := _passed_on(reader, code, Imported(module, name), set()):
            return passed
    if code.file.language == "rust" and not code.imports.everything:
        # what a file calls without an import is a macro or a type, if it is from the folder
        candidates = tuple(each for each in candidates if each.kind != "function")
    if code.file.language == "go" or not candidates:
        # Go has no other way; a name that nobody defines comes from outside the folder
        return Meaning((), "likely")
    return Meaning(candidates, "likely" if len(candidates) == 1 else "by_name")


def in_module(reader: CodeReader, code: CodeOfFile, imported: Imported) -> Meaning:
    """The meaning of a name of another module or package."""
    return _in_module(reader, code, imported, set())


def _in_module(reader: CodeReader, code: CodeOfFile, imported: Imported, seen: set[tuple[UUID, Imported]]) -> Meaning:
    name = imported.name or ""
    candidates = _candidates(reader, code, name, members=code.file.language == "java")
    found = tuple(each for each in candidates if _is_of(reader, code, each, imported.module))
    if found:
        return Meaning(found, "resolved")
    if passed := _passed_on(reader, code, imported, seen):
        return passed
    if code.file.language != "rust" or not candidates:
        return Meaning((), "likely")
    # a crate may pass on what one of its modules defines
    return Meaning(candidates, "likely" if len(candidates) == 1 else "by_name")


def _passed_on(
    reader: CodeReader, code: CodeOfFile, imported: Imported, seen: set[tuple[UUID, Imported]]
) -> Meaning | None:
    """What a module of Rust imports and passes on, also under another name, such as `pub use a::f as g`."""
    key = (code.file.id, imported)
    if code.file.language != "rust" or key in seen or len(seen) >= _MAX_PASSED:
        return None
    seen.add(key)
    own, others = rust_files(imported.module, code.file.path)
    for paths, is_own in ((own, True), (others, False)):
        for home in reader.files_at(paths):
            named = home.imports.named.get(imported.name or "")
            choices = [named] if named else [Imported(each, imported.name) for each in home.imports.everything]
            for each in choices:
                meant = _in_module(reader, home, each, seen)
                if meant.targets and (named or meant.confidence == "resolved"):
                    return meant if is_own else meant.weaker("likely")
    return None


def package_called(reader: CodeReader, code: CodeOfFile, called: str, name: str) -> Imported | None:
    """The import that brings what a file calls by a name: in Go, also one of a package that has another name."""
    known = code.imports.named.get(called)
    for each in code.imports.named.values() if known is None and code.file.language == "go" else ():
        for found in in_module(reader, code, Imported(each.module, name)).targets:
            home = reader.file(found.file_id)
            if home is not None and home.imports.package == called:
                return each
    return known


def is_same_language(reader: CodeReader, code: CodeOfFile, defined: Defined) -> bool:
    """Whether a definition is in a file with the ending of another one."""
    path = reader.path(defined.file_id) or ""
    return posixpath.splitext(path)[1] == posixpath.splitext(code.file.path)[1]


def _candidates(reader: CodeReader, code: CodeOfFile, name: str, *, members: bool = False) -> tuple[Defined, ...]:
    return tuple(
        each
        for each in reader.named(name)
        if (members or each.kind != "method") and is_same_language(reader, code, each)
    )


def _home(reader: CodeReader, code: CodeOfFile, defined: Defined) -> str:
    language = code.file.language or ""
    file = reader.file(defined.file_id) if language in WITH_NAMESPACES else None
    home = home_of(reader.path(defined.file_id) or "", file.imports.package if file else None, defined, language)
    return f"/{home}/".replace("/src/", "/").strip("/") if language == "rust" else home


def _is_near(reader: CodeReader, code: CodeOfFile, defined: Defined) -> bool:
    """Whether a definition is in the package of a file, which sees it without an import."""
    language = code.file.language
    if language == "rust":
        return False
    if language in WITH_NAMESPACES:
        return _home(reader, code, defined) in {"", *around_of(code.imports.package, language)}
    folder = posixpath.dirname(code.file.path)
    is_beside = posixpath.dirname(reader.path(defined.file_id) or "") == folder
    if language == "go":
        return is_beside and not defined.scope
    package = code.imports.package.replace(".", "/")
    return not defined.scope and (is_beside or is_in(_home(reader, code, defined), package))


def _is_of(reader: CodeReader, code: CodeOfFile, defined: Defined, module: str) -> bool:
    """Whether a definition is in the module that an import names."""
    language = code.file.language or ""
    if language == "go":
        folder = posixpath.dirname(reader.path(defined.file_id) or "")
        return not defined.scope and is_go_import(folder, module, reader.go_module())
    wanted = qualified_by(module, language)
    home = _home(reader, code, defined)
    if language in WITH_NAMESPACES:
        return home == wanted
    return is_in(home, wanted)

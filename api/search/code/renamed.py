"""Finds by which other names code calls definitions: aliases of imports and exports, and default exports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from api.search.code.code_of_file import CodeOfFile, Meaning
from api.search.code.imports import Imported
from api.search.code.scripts import DEFAULT, SCRIPTS, specifiers
from worker.state.search.code_texts import Defined

#: How often a name is passed on under another one, at most.
_MAX_STEPS = 6


class ImportReader(Protocol):
    """Lookups in the files of an index."""

    def file(self, file_id: UUID) -> CodeOfFile | None:
        """A file."""
        ...

    def importing(self, names: Sequence[str], modules: Sequence[str]) -> tuple[list[CodeOfFile], bool]:
        """Files that import one of these modules, or one of these names under another, and whether there are more."""
        ...

    def imported(self, code: CodeOfFile, imported: Imported) -> Meaning:
        """The meaning of an import of a file."""
        ...


@dataclass(slots=True)
class OtherNames:
    """Names in all files, and names in one file each. `is_cut`: more files import than were read."""

    everywhere: set[str] = field(default_factory=set)
    in_files: set[tuple[UUID, str]] = field(default_factory=set)
    is_cut: bool = False


def other_names(reader: ImportReader, nodes: Sequence[Defined], names: Iterable[str]) -> OtherNames:
    """The names other than `names` by which code may call these definitions."""
    found = OtherNames()
    wanted = set(nodes)
    known, read = set(names), set[UUID]()
    fresh = sorted(known | (passed := _exported_names(reader, nodes)))
    found.everywhere |= passed - known
    modules = {module for node in nodes for module in _modules_of_default(reader, node)}
    for _ in range(_MAX_STEPS):
        codes, more = reader.importing(fresh, sorted(modules))
        found.is_cut |= more
        known |= set(fresh)
        asked, fresh, modules = modules, [], set()
        for code in codes:
            aliases = _aliases(reader, code, known, wanted, asked)
            found.in_files |= {(code.file.id, alias) for alias in aliases - known}
            passed_on = _passed_on(code, aliases) - known
            if DEFAULT in passed_on and code.file.id not in read:
                modules |= set(specifiers(code.file.path))
                read.add(code.file.id)
            fresh += passed_on - {DEFAULT}
        found.everywhere |= set(fresh)
        if not fresh and not modules:
            break
    return found


def _exported_names(reader: ImportReader, nodes: Sequence[Defined]) -> set[str]:
    """The names by which the files of definitions of scripts export them."""
    found = set[str]()
    for node in nodes:
        code = reader.file(node.file_id)
        if code is not None and not node.scope:
            found |= {alias for alias, names in code.imports.exports.items() if node.name in names}
    return found - {DEFAULT}


def _modules_of_default(reader: ImportReader, node: Defined) -> list[str]:
    """The names that imports use for the module whose default export a definition is."""
    code = reader.file(node.file_id)
    if code is None or code.file.language not in SCRIPTS or node.scope:
        return []
    is_default = node.name in code.imports.exports.get(DEFAULT, ()) or node.name in code.imports.wrapped
    return specifiers(code.file.path) if is_default else []


def _aliases(
    reader: ImportReader, code: CodeOfFile, known: set[str], wanted: set[Defined], asked: set[str]
) -> set[str]:
    """The names that a file gives to what it imports by a known name, or as the default of its module."""
    found = set[str]()
    for alias, imported in code.imports.every():
        if imported.name in known:
            found.add(alias)
        elif imported.name in {None, DEFAULT} and imported.module in asked:
            found |= {alias} if wanted & set(reader.imported(code, imported).targets) else set()
    return found


def _passed_on(code: CodeOfFile, aliases: set[str]) -> set[str]:
    """The names by which others get what a file imports under some names."""
    imports = code.imports
    if code.file.language not in SCRIPTS:
        return aliases & (imports.named.keys() | imports.others.keys())
    return aliases & imports.passed_on | {name for name, known in imports.exports.items() if aliases & {*known}}

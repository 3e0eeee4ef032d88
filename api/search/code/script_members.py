"""Members that JavaScript and TypeScript assign to objects and functions, and names that scripts share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from api.search.code.code_of_file import CodeOfFile, Meaning
from api.search.code.own_names import holder_of
from api.search.code.scripts import DEFAULT, SCRIPTS
from worker.state.search.code_texts import Defined


class ScriptReader(Protocol):
    """Lookups in other files."""

    def named(self, name: str) -> tuple[Defined, ...]:
        """The definitions of a name."""
        ...

    def file(self, file_id: UUID) -> CodeOfFile | None:
        """A file."""
        ...


def is_script(code: CodeOfFile | None) -> bool:
    """Whether a file was read and is JavaScript or TypeScript."""
    return code is not None and code.file.language in SCRIPTS


def is_given(code: CodeOfFile, defined: Defined) -> bool:
    """Whether others get a definition of a file by its name, though the file may assign it to something."""
    holder = holder_of(defined.signature, defined.name) if is_script(code) else None
    return holder in {None, "exports", "module.exports", *code.imports.exports.get(DEFAULT, ())}


def held(reader: ScriptReader, owner: Defined, name: str) -> tuple[Defined, ...]:
    """The members of an object or a function by a name: its own, or assigned to it or to its prototype."""
    code = reader.file(owner.file_id)
    if code is None or code.file.language not in SCRIPTS:
        return ()
    return _held(code, owner.name, name, owner.path)


def of_this(code: CodeOfFile, around: Sequence[Defined], name: str) -> tuple[Defined, ...]:
    """The members of `this` by a name in a function that is assigned to an object or a prototype."""
    outer = [each for each in around if not each.scope]
    holder = holder_of(outer[-1].signature, outer[-1].name) if outer and is_script(code) else None
    return _held(code, holder.removesuffix(".prototype"), name, None) if holder else ()


def _held(code: CodeOfFile, owner: str, name: str, path: str | None) -> tuple[Defined, ...]:
    holders = {owner, f"{owner}.prototype"}
    named = [each for each in code.outline if each.name == name]
    return tuple(each for each in named if each.scope == path or holder_of(each.signature, name) in holders)


def shared(reader: ScriptReader, name: str) -> Meaning:
    """The meaning of a name in a file that is no module: such files share the names of their top level."""
    found = tuple(
        each
        for each in reader.named(name)
        if not each.scope
        and (code := reader.file(each.file_id)) is not None
        and is_script(code)
        and not code.imports.is_module
        and holder_of(each.signature, name) is None
    )
    return Meaning(found, ("likely" if len(found) == 1 else "by_name") if found else "resolved")

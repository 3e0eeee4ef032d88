"""Finds what has a member that code reaches in several steps: by calls, attributes and values of the language."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from api.search.code.built_in import MODULES, is_built_in
from api.search.code.code_of_file import FUNCTIONS, PATH, CodeOfFile, Meaning
from api.search.code.meanings import OWN, Meanings
from api.search.code.surroundings import classes_around, functions_around
from worker.state.pool import Pool
from worker.state.search.code_texts import Defined, Only

#: Values that one value is looked up by, one after another.
_MAX_STEPS = 8
#: What a variable may be given that has one class: the class, and what is not seen.
_MAX_KINDS = 2


class Values(Meanings):
    """Finds meanings also where a value is what a method returns, or what a language brings along."""

    def __init__(self, pool: Pool, index_id: UUID, only: Only = None) -> None:
        super().__init__(pool, index_id, only)
        #: The values that are being looked up, each for the one before it.
        self._open: set[tuple[UUID, str, Defined | None]] = set()

    def _member(self, code: CodeOfFile, receiver: str, name: str, within: Defined | None) -> Meaning:
        found = super()._member(code, receiver, name, within)
        if found.confidence != "by_name":
            return found
        value = receiver.removesuffix(PATH).replace(PATH, ".")
        if self._is_built_in(code, value, within):
            return self._of_built_in({value}, name)
        owner = self._class_of_value(code, value, within)
        meant = self._of_class(owner, name) if owner else found
        # it says what the value should be, while another class may stand in for it
        return meant.weaker("likely") if meant.targets and meant.confidence != "by_name" else found

    def _of_given(
        self,
        code: CodeOfFile,
        lines: str,
        variable: str,
        name: str,
        around: Defined | None,
        *,
        is_attribute: bool = False,
    ) -> Meaning:
        found = super()._of_given(code, lines, variable, name, around, is_attribute=is_attribute)
        if found.confidence == "by_name":
            kinds = self._kinds(code, lines, variable, is_attribute)
            if kinds and all(self._is_built_in(code, kind, around) for kind in kinds):
                return self._of_built_in(kinds, name)
        return found

    def _is_sure(self, code: CodeOfFile, named: str, around: Defined | None) -> bool:
        return "(" not in named and super()._is_sure(code, named, around)

    def _is_built_in(self, code: CodeOfFile, name: str, around: Defined | None) -> bool:
        if not is_built_in(name, code.file.language):
            return False
        module, _, last = name.rpartition(".")
        if module:
            inner = code.inner_import(module, functions_around(code, around))
            choices = [inner] if inner else code.imports.choices(module)
            is_of_language = choices and all(each.module in MODULES and not each.name for each in choices)
            return bool(is_of_language) and not any(self.modules_called(code, module, around))
        return not self._bare(code, last, around).targets

    def _of_built_in(self, kinds: Collection[str], name: str) -> Meaning:
        """A member of a type of the language: nothing, or what a class that inherits from it has."""
        bases = {kind.rpartition(".")[2] for kind in kinds}
        found = []
        for each in self.named(name):
            code = self.file(each.file_id) if each.scope else None
            if code is not None and bases & {*code.bases.get(each.scope, ())}:
                found.append(each)
        return Meaning(tuple(found), "by_name" if found else "resolved")

    def _class_of(self, code: CodeOfFile, dotted: str, around: Defined | None, *, calls: bool = True) -> Defined | None:
        found = super()._class_of(code, dotted, around, calls=calls)
        if found is None and calls and "." in dotted:
            return self._class_of_value(code, f"{dotted}()", around)
        return found

    def _class_of_value(self, code: CodeOfFile, value: str, around: Defined | None) -> Defined | None:
        """The class of what stands before a member, such as `pool`, `self.pool` or `Pool().get()`."""
        key = code.file.id, value, around
        if key in self._open or len(self._open) >= _MAX_STEPS:
            return None
        self._open.add(key)
        try:
            before, _, last = value.rpartition(".")
            way = self._class_of_member if before else self._class_of_name
            return way(code, before, last, around)
        finally:
            self._open.discard(key)

    def _class_of_name(self, code: CodeOfFile, _: str, last: str, around: Defined | None) -> Defined | None:
        name = last.removesuffix("()")
        if name in OWN:
            return next(classes_around(code, around), None)
        found = self._bare(code, name, around)
        is_call = name != last
        owner = self._one_class(code, found.targets)
        if owner is not None and (is_call or found.confidence != "by_name"):
            return owner
        if is_call:
            return self._returned(found.targets) if found.confidence != "by_name" else None
        known = self._classes_of_variable(code, name, around)
        return known[0] if len(known) == 1 else None

    def _class_of_member(self, code: CodeOfFile, before: str, last: str, around: Defined | None) -> Defined | None:
        name = last.removesuffix("()")
        is_call = name != last
        if any(modules := [] if "(" in before else self.modules_called(code, before, around)):
            found = [target for each in modules if each for target in self._exported(each, name).targets]
            home = self.file(found[0].file_id) if found else None
            if is_call or home is None:
                return self._one_class(code, found) or self._returned(found)
            return self._one_given(home, home.outside, found[0].name, None)
        owner = self._class_of_value(code, before, around)
        if owner is None:
            return None
        meant = self._of_class(owner, name)
        functions = [each for each in meant.targets if each.kind in FUNCTIONS]
        if meant.confidence == "resolved" and (functions or is_call):
            return self._returned(functions)
        for each, home in [] if is_call else self._lineage(owner):
            lines = home.between(each.start_line, each.end_line)
            if (one := self._one_given(home, lines, name, each, is_attribute=True)) is not None:
                return one
        return None

    def _one_given(
        self, code: CodeOfFile, lines: str, variable: str, around: Defined | None, *, is_attribute: bool = False
    ) -> Defined | None:
        """The class that the lines give a variable, if they give it one."""
        kinds = self._kinds(code, lines, variable, is_attribute)
        classes = {found for each in kinds if (found := self._class_of(code, each, around)) is not None}
        return classes.pop() if len(classes) == 1 and len(kinds) <= _MAX_KINDS else None

"""Finds which definition a call means: by the classes, imports and assignments that the code around it shows.

It reads code as a person does who looks at one screen of it. What it cannot see it does not guess: then the call means
any definition of its name.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from uuid import UUID

from api.search.code import script_members
from api.search.code.answers import remembered
from api.search.code.bare_members import beside_members, hides, holders_of, reached
from api.search.code.built_in import may_be
from api.search.code.code_files import CodeFiles
from api.search.code.code_of_file import FUNCTIONS, LITERAL, MEMBER, PATH, RECEIVER, CodeOfFile, Meaning, one_of
from api.search.code.given import given, returned
from api.search.code.imports import Imported
from api.search.code.own_names import holder_of, is_local
from api.search.code.packages import LANGUAGES, OWN_WORDS, SEEN_BASES, WITH_BARE_MEMBERS, WITH_PARTS
from api.search.code.scripts import DEFAULT
from api.search.code.surroundings import CLASSES, WITH_MEMBERS, classes_around, functions_around, text_before
from api.search.code.visible import in_module, is_same_language, package_called, visible
from worker.state.search.code_texts import Defined

#: Classes that one inherits from, one after another.
_MAX_LINEAGE = 200
#: Kinds of definitions that hold what is defined elsewhere.
_VARIABLES = frozenset({"variable", "constant"})
OWN = frozenset({"self", "cls", "this", "Self", "super()", "super", "base"})
_INHERITED = frozenset({"super()", "super", "base"})


class Meanings(CodeFiles):
    """Finds meanings in the code of one index."""

    def of_call(self, file_id: UUID, line: int, name: str, within: Defined | None) -> list[Meaning]:
        """The meaning of each call of a name in a line of the definition `within`."""
        code = self.file(file_id)
        if code is None:
            return [self._unseen(name, self.outline(file_id))]
        receivers = dict.fromkeys(code.receivers(line, name))
        if not receivers:
            return [self._unseen(name, code.outline)]
        found = [self._meant(code, receiver, name, within) for receiver in receivers]
        return [each for each in found if each.targets] or found[:1]

    def _unseen(self, name: str, outline: Sequence[Defined]) -> Meaning:
        """The meaning of a call in an unreadable line: a function of its own file, else any definition of the name."""
        own = tuple(each for each in outline if each.name == name and each.kind != "method")
        return Meaning(own, "likely") if own else Meaning(self.named(name), "by_name")

    @remembered
    def _meant(self, code: CodeOfFile, receiver: str | None, name: str, within: Defined | None) -> Meaning:
        if receiver == "":
            return self._bare(code, name, within)
        if receiver == LITERAL:
            return Meaning((), "resolved")
        if receiver is None:
            return Meaning(self.named(name), "by_name")
        return self._member(code, receiver, name, within)

    def _bare(self, code: CodeOfFile, name: str, within: Defined | None) -> Meaning:
        """A name as a place in a file sees it, unless a function around the place gives it a value of its own."""
        found = self._visible(code, name, within)
        if not found.targets or not (code.has_locals or code.file.language == "cpp"):
            return found
        around = functions_around(code, within)
        if not any(each.kind in FUNCTIONS for each in around) and code.is_bound_outside(name):
            return Meaning(found.targets, "by_name")
        scopes = {each.scope for each in found.targets if each.file_id == code.file.id}
        for each in [] if code.inner_import(name, around) else around:
            if each.path in scopes:
                break
            if each.kind in FUNCTIONS and self._is_local(code, each, name):
                return Meaning(found.targets, "by_name")
        return found

    @remembered
    def _is_local(self, code: CodeOfFile, function: Defined, name: str) -> bool:
        return hides(code, function, name)

    def _visible(self, code: CodeOfFile, name: str, within: Defined | None) -> Meaning:
        """A name by the definitions around a place, the file, and its imports."""
        around = within.path if within else ""
        is_script = script_members.is_script(code)
        if inner := code.inner_import(name, functions_around(code, within)):
            return self.imported(code, inner)
        for each in (holders := holders_of(code, within, name)):
            found = reached(code, within, each, self._of_class(each, name))
            if found.targets and found.confidence != "by_name":
                return found
        while True:
            # a method, also one of a literal, has something before it where it is called
            own = [d for d in code.outline if d.name == name and d.scope == around and d.kind != "method"]
            own = [d for d in own if not (is_script and holder_of(d.signature, name))]
            owner = [each for each in code.outline if around and each.path == around]
            if own and not any(each.kind in WITH_MEMBERS for each in owner):
                found = Meaning(tuple(own), "resolved")
                is_sure = around or name not in code.imports.named
                found = found if is_sure else one_of([found, self._exported(code, name, own=False)])
                return beside_members(found, self.named(name)) if holders else found
            if not around:
                break
            around = around.rpartition("/")[0]
        if is_script or code.file.language == "python":
            return self._exported(code, name, own=False)
        if code.file.language in LANGUAGES:
            return self._of_package(code, name, within)
        named = self.named(name)
        return Meaning(named, "likely" if len(named) == 1 else "by_name")

    def _of_package(self, code: CodeOfFile, name: str, within: Defined | None) -> Meaning:
        """A name as a file sees it whose package has others: also a member of the classes around, where it may be."""
        if code.file.language in WITH_BARE_MEMBERS:
            for owner in classes_around(code, within):
                found = self._of_class(owner, name)
                if found.confidence == "resolved":
                    return found
        found = visible(self, code, name)
        if found.targets or code.file.language not in WITH_BARE_MEMBERS:
            return found
        # a class from outside the folder may bring it
        return Meaning(self.named(name), "by_name") if self.named(name) else found

    def _exported(self, code: CodeOfFile, name: str, *, own: bool = True) -> Meaning:
        """The meaning of a name for importers of the file; not `own`: only through the file's own imports."""
        key = (code.file.id, name, own)
        return self.exports.of(key, lambda: self._given_by(code, name, own=own), lambda: self.named(name))

    def _given_by(self, code: CodeOfFile, name: str, *, own: bool) -> Meaning:
        known = code.imports.exports.get(name, [name]) if own else [name]
        return one_of([self._given_as(code, name, local, own=own) for local in known])

    def _given_as(self, code: CodeOfFile, name: str, local: str, *, own: bool) -> Meaning:
        """The meaning of a name for importers, if it is `local` in the file."""
        defined = [each for each in code.outline if each.name == local and not each.scope] if own else []
        found = tuple(each for each in defined if script_members.is_given(code, each))
        choices = [Meaning(found, "resolved")] if found else []
        # one branch may define what another one imports
        choices += [self.imported(code, each) for each in code.imports.choices(local)]
        if choices:
            return one_of(choices)
        suggested = [Meaning((), "resolved")]
        # branches of a script may be one module or another
        is_branched = DEFAULT in code.imports.others
        for each in code.imports.everything:
            module = self.module(code, each)
            meant = self._exported(module, name) if module else self._elsewhere(code, each, name)
            if meant.targets and meant.confidence == "resolved" and not is_branched:
                return meant
            suggested += [meant] if meant.targets else []
        is_shared = not own and not code.imports.is_module
        return (
            script_members.shared(self, name) if is_shared else one_of(suggested[1:] if is_branched else suggested[-1:])
        )

    def imported(self, code: CodeOfFile, imported: Imported) -> Meaning:
        """The meaning of an import of a file."""
        module = self.module(code, imported.module)
        is_script = script_members.is_script(code)
        name = imported.name or (DEFAULT if is_script else None)
        if name is None:
            return Meaning((), "resolved")
        if module is None:
            return self._elsewhere(code, imported.module, name)
        if name == DEFAULT and DEFAULT not in module.imports.named and module.imports.wrapped:
            # an expression, such as `export default wrapped(Button)`
            found = tuple(d for d in module.outline if d.name in module.imports.wrapped and not d.scope)
            return Meaning(found, "likely" if len(found) == 1 else "by_name")
        return self._exported(module, name)

    def _elsewhere(self, code: CodeOfFile, module: str, name: str) -> Meaning:
        """The meaning of an import that names no path of the folder: a package at an unknown place, or nothing."""
        found = []
        for each in self.named(name):
            path, language = f"{self.root_name}/{self.path(each.file_id) or ''}", code.file.language
            is_alike = script_members.is_script(self.file(each.file_id)) == script_members.is_script(code)
            if each.kind != "method" and not each.scope and is_alike and may_be(path, language, module):
                found.append(each)
        return Meaning(tuple(found), ("likely" if len(found) == 1 else "by_name") if found else "resolved")

    def _member(self, code: CodeOfFile, receiver: str, name: str, within: Defined | None) -> Meaning:
        """A member of what stands before it."""
        # a path of Rust never begins with a variable, and what stands before a dot never is a path
        is_value = code.file.language == "rust" and not receiver.endswith(PATH)
        receiver = receiver.removesuffix(PATH).replace(PATH, ".")
        head, _, rest = receiver.partition(".")
        head = OWN_WORDS.get((code.file.language or "", head), head)
        if head in OWN and not (head == "super" and code.file.language == "rust"):
            owner = next(classes_around(code, within), None)
            if owner is None:
                held = () if rest else script_members.of_this(code, functions_around(code, within), name)
                return Meaning(held, "likely") if held else Meaning(self.named(name), "by_name")
            if rest:
                return self._of_attribute(owner, rest, name)
            return self._of_class(owner, name, skip=head in _INHERITED)
        if code.file.language in LANGUAGES:
            is_variable = is_value and receiver.isidentifier()
            way = self._of_variable if is_variable else self._qualified
            return way(code, receiver, name, within)
        modules = self.modules_called(code, receiver, within)
        if any(modules):
            return one_of([self._of_module(code, each, receiver, name) for each in modules])
        return Meaning(self.named(name), "by_name") if rest else self._of_word(code, head, name, within)

    def _of_module(self, code: CodeOfFile, module: CodeOfFile | None, receiver: str, name: str) -> Meaning:
        """A member of a module: what it exports, or a member of its default export. None: one outside the folder."""
        if module is None:
            return Meaning((), "resolved")
        whole = self._exported(module, DEFAULT) if script_members.is_script(module) else Meaning((), "resolved")
        if held := [own for each in whole.targets if (own := self._held(each, name))]:
            return one_of([Meaning(each, whole.confidence) for each in held])
        found = self._exported(module, name)
        imported = code.imports.named.get(receiver)
        is_object = bool(whole.targets or module.imports.exports or (imported and imported.name == DEFAULT))
        # an object may get members that are not seen
        return Meaning(self.named(name), "by_name") if is_object and not found.targets else found

    def _held(self, owner: Defined, name: str) -> tuple[Defined, ...]:
        """The members of a class or an object of a script by a name."""
        if owner.kind not in CLASSES:
            return script_members.held(self, owner, name)
        found = self._of_class(owner, name)
        return found.targets if found.confidence == "resolved" else ()

    def _qualified(self, code: CodeOfFile, receiver: str, name: str, within: Defined | None) -> Meaning:
        """A member of a package, a module, a class, or a variable and its attributes."""
        head, _, rest = receiver.partition(".")
        imported = package_called(self, code, head, name)
        if code.file.language == "go" and imported is not None and not rest:
            return in_module(self, code, Imported(imported.module, name))
        if code.file.language == "rust" and head.islower() and "(" not in receiver:
            before = f"{imported.module}::{imported.name}" if imported else head
            module = "::".join(filter(None, (before, *filter(None, rest.split(".")))))
            found = in_module(self, code, Imported(module, name))
            if found.confidence == "resolved" or (found.targets and not self.named(name)):
                return found
        if not rest:
            found = self._of_word(code, head, name, within)
            if found.confidence != "by_name" or code.file.language != "rust":
                return found
        elif "(" not in receiver:
            owner = self._class_of(code, receiver, within)
            if owner is not None:
                return self._of_class(owner, name)
        holders = self._classes_of_variable(code, head, within) if rest and "(" not in head else ()
        if len(holders) == 1:
            return self._of_attribute(holders[0], rest, name)
        return Meaning(self.named(name), "by_name")

    def _classes_of_variable(self, code: CodeOfFile, variable: str, within: Defined | None) -> Sequence[Defined]:
        for around in [*functions_around(code, within), None]:
            lines = code.between(around.start_line, around.end_line) if around else code.outside
            kinds = self._kinds(code, lines, variable)
            found = [self._class_of(code, each, around) for each in kinds]
            if found:
                return [each for each in dict.fromkeys(found) if each is not None]
        return ()

    def _of_word(self, code: CodeOfFile, head: str, name: str, within: Defined | None) -> Meaning:
        """A member of a class, of what a function returns, or of a variable."""
        called, is_call, _ = head.partition("(")
        found = self._bare(code, called, within)
        owner = self._one_class(code, found.targets)
        if owner is not None and (found.confidence != "by_name" or is_call):
            return self._of_class(owner, name).weaker(found.confidence)
        if is_call:
            result = self._returned(found.targets)
            meant = self._of_class(result, name).targets if result else ()
            return Meaning(meant, "likely") if meant else Meaning(self.named(name), "by_name")
        if found.targets and found.confidence == "resolved" and (held := self._held(found.targets[0], name)):
            return Meaning(held, "resolved")
        if called in code.imports.named and not found.targets:
            # it comes from outside the folder, and so does what it has
            return self._elsewhere(code, code.imports.named[called].module, name)
        home = self.file(found.targets[0].file_id) if len(found.targets) == 1 else None
        if home is not None and home.file.id != code.file.id and found.targets[0].kind in _VARIABLES:
            return self._of_given(home, home.outside, found.targets[0].name, name, None).weaker(found.confidence)
        return self._of_variable(code, head, name, within)

    def _of_attribute(self, owner: Defined, attribute: str, name: str) -> Meaning:
        """A member of an attribute of a class, if the class or one that it inherits from shows what it is."""
        for each, code in self._lineage(owner) if "." not in attribute else ():
            lines = code.between(each.start_line, each.end_line)
            found = self._of_given(code, lines, attribute, name, each, is_attribute=True)
            if found.confidence != "by_name":
                return found
        return Meaning(self.named(name), "by_name")

    def _of_variable(self, code: CodeOfFile, variable: str, name: str, within: Defined | None) -> Meaning:
        """A member of a variable, if its function or its file shows what it is."""
        for around in functions_around(code, within):
            lines = code.between(around.start_line, around.end_line)
            if self._kinds(code, lines, variable) or (code.has_locals and is_local(lines, around.signature, variable)):
                return self._of_given(code, lines, variable, name, around)
        return self._of_given(code, code.outside, variable, name, None)

    @remembered
    def _kinds(self, code: CodeOfFile, lines: str, variable: str, is_attribute: bool = False) -> tuple[str, ...]:
        """See `given`, which reads all lines."""
        return tuple(given(lines, variable, code.file.language, is_attribute=is_attribute))

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
        """A member of what the lines assign to a variable, or annotate it with."""
        kinds = self._kinds(code, lines, variable, is_attribute)
        found = [self._class_of(code, each, around) for each in kinds]
        classes = {each: None for each in found if each is not None}
        if not classes or len(classes) < len(kinds) - 1:
            return Meaning(self.named(name), "by_name")
        meant = [self._of_class(each, name) for each in classes]
        if any(each.confidence == "by_name" for each in meant):
            return Meaning(self.named(name), "by_name")
        targets = tuple(dict.fromkeys(target for each in meant for target in each.targets))
        sure = len(kinds) == 1 and meant[0].confidence == "resolved" and self._is_sure(code, kinds[0], around)
        return Meaning(targets, "resolved" if sure else "likely") if targets else Meaning(self.named(name), "by_name")

    def _is_sure(self, code: CodeOfFile, named: str, around: Defined | None) -> bool:
        """Whether the code shows what a name of a class is."""
        return "." in named or named == "Self" or self._bare(code, named, around).confidence == "resolved"

    def _class_of(self, code: CodeOfFile, dotted: str, around: Defined | None, *, calls: bool = True) -> Defined | None:
        """The class that a name is, or with `calls` that a function of that name returns."""
        *module, last = dotted.split(".")
        if not last:
            return None
        if last == "Self":
            return next(classes_around(code, around), None)
        if module and code.file.language in LANGUAGES:
            found = self._member_of(code, ".".join(module), last, around)
        elif module:
            homes = filter(None, self.modules_called(code, ".".join(module), around))
            found = tuple(target for home in homes for target in self._exported(home, last).targets)
        else:
            found = self._bare(code, last, around).targets
        return self._one_class(code, found) or (self._returned(found) if calls else None)

    def _member_of(self, code: CodeOfFile, module: str, last: str, around: Defined | None) -> tuple[Defined, ...]:
        """The member of a package, a module or a class by a name."""
        imported = package_called(self, code, module, last)
        if imported is not None and imported.name is None:
            return in_module(self, code, Imported(imported.module, last)).targets
        owner = self._class_of(code, module, around, calls=False)
        if owner is not None:
            found = self._of_class(owner, last)
        else:
            before = f"{imported.module}.{imported.name}" if imported else module
            found = in_module(self, code, Imported(before, last))
        return found.targets if found.confidence == "resolved" else ()

    def _one_class(self, code: CodeOfFile, found: Sequence[Defined]) -> Defined | None:
        """The class that definitions are, also if it has several parts."""
        classes = [each for each in found if each.kind in CLASSES]
        is_one = len(classes) == 1 or (code.file.language in WITH_PARTS and len({each.path for each in classes}) == 1)
        return min(classes, key=lambda each: each.kind == "impl") if is_one else None

    def _returned(self, functions: Sequence[Defined]) -> Defined | None:
        """The class that functions return, by their signature."""
        home = self.file(functions[0].file_id) if functions else None
        if home is None:
            return None
        stated = {returned(each.signature, each.name, home.file.language) for each in functions} - {None}
        if len(stated) != 1:
            return None
        name = str(stated.pop())
        if name == "Self":
            return next(classes_around(home, functions[0]), None)
        if "." in name:
            # a function may return what is named like itself
            return self._class_of(home, name, functions[0], calls=False)
        return self._one_class(home, self._bare(home, name, functions[0]).targets)

    def _base(self, code: CodeOfFile, owner: Defined, base: str) -> list[Defined]:
        """The classes that a base of a class is, of which rows know the last part of its name alone."""
        before = text_before(code, owner, base)
        if MEMBER.search(before):
            receiver = RECEIVER.search(before.rstrip())
            homes = filter(None, self.modules_called(code, receiver[1], None) if receiver else ())
            found = tuple(target for home in homes for target in self._exported(home, base).targets)
        else:
            found = self._bare(code, base, None).targets
        return [each for each in found if each.kind in CLASSES and each != owner]

    @remembered
    def _of_class(self, owner: Defined, name: str, *, skip: bool = False) -> Meaning:
        """A member of a class, its own or inherited. `skip`: only an inherited one."""
        for each, code in self._lineage(owner):
            own = code.members(each.path, name)
            if not own and code.file.language in {"go", "cpp"}:
                own = self._beside(each, code, name)
            if own and not (skip and each == owner):
                # in other languages a base is known by its name only
                is_own = each.path == owner.path and own[0].file_id == code.file.id
                is_seen = is_own or code.file.language in SEEN_BASES or code.has_locals
                return Meaning(own, "resolved" if is_seen else "likely")
        # a class from outside the folder has what `super()` calls; a subclass may have what `self` calls
        others = () if skip else tuple(each for each in self.named(name) if each.kind == "method")
        return Meaning(others, "by_name" if others else "likely")

    def _beside(self, owner: Defined, code: CodeOfFile, name: str) -> tuple[Defined, ...]:
        """The methods of a type in all files of its folder, which is the package of Go."""
        folder = posixpath.dirname(code.file.path)
        methods = [each for each in self.named(name) if each.scope in {owner.name, owner.path}]
        return tuple(each for each in methods if posixpath.dirname(self.path(each.file_id) or "") == folder)

    def _parts(self, owner: Defined, code: CodeOfFile) -> list[Defined]:
        """The other parts of a class, such as what Rust implements for a type."""
        like = [each for each in self.named(owner.name) if each.path == owner.path and each.kind in CLASSES]
        return [each for each in like if is_same_language(self, code, each)]

    def _lineage(self, owner: Defined) -> Iterator[tuple[Defined, CodeOfFile]]:
        """A class and those that it inherits from, each with its file."""
        seen: dict[Defined, None] = {}
        left = [owner]
        while left and len(seen) < _MAX_LINEAGE:
            each = left.pop(0)
            code = self.file(each.file_id)
            if each in seen or code is None:
                continue
            seen[each] = None
            yield each, code
            left += self._above(each, code)
        self.exports.is_cut |= bool(left)

    @remembered
    def _above(self, owner: Defined, code: CodeOfFile) -> list[Defined]:
        """The classes that one is made from: its bases and its other parts."""
        found = [each for base in code.bases.get(owner.path, ()) for each in self._base(code, owner, base)]
        return found + (self._parts(owner, code) if code.file.language in WITH_PARTS else [])

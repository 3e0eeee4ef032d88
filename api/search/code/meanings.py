"""Finds which definition a call means: by the classes, imports and assignments that the code around it shows.

It reads code as a person does who looks at one screen of it. What it cannot see it does not guess: then the call means
any definition of its name.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from api.search.code.code_of_file import LITERAL, MEMBER, PATH, RECEIVER, CodeOfFile, Meaning
from api.search.code.given import given, returned
from api.search.code.imports import SCRIPTS, Imported, module_paths, package_above
from api.search.code.packages import LANGUAGES, WITH_BARE_MEMBERS, WITH_PARTS
from api.search.code.surroundings import CLASSES, WITH_MEMBERS, classes_around, functions_around, text_before
from api.search.code.visible import in_module, is_same_language, visible
from api.search.text.file_text import first_line_of, joined
from schemas.queries.symbol import Confidence
from worker.state.pool import Pool
from worker.state.search import code_texts
from worker.state.search.code_texts import CalledName, Defined, Only

#: The surest first.
CONFIDENCES: tuple[Confidence, ...] = ("resolved", "likely", "by_name")
#: Bytes of code that one request reads, and definitions of one name.
MAX_BYTES = 8_000_000
MAX_NAMED = 100
#: Files that are looked through for other names of a definition.
MAX_RENAMING = 100
#: Imports, bases or assignments that are followed one after another.
MAX_STEPS = 8
_OWN = frozenset({"self", "cls", "this", "Self", "super()", "super", "base"})
_INHERITED = frozenset({"super()", "super", "base"})
_GO_MODULE = re.compile(r"^module[ \t]+(\S+)", re.MULTILINE)


class Meanings:
    """Finds meanings in the code of one index, as if it had `only` these files, and remembers what it read."""

    def __init__(self, pool: Pool, index_id: UUID, only: Only = None) -> None:
        self._pool, self._index, self._only = pool, index_id, only
        self._files: dict[UUID, CodeOfFile | None] = {}
        self._paths: dict[str, UUID | None] = {}
        self._named: dict[str, tuple[Defined, ...]] = {}
        self._outlines: dict[UUID, Sequence[Defined]] = {}
        self._path_of: dict[UUID, str] = {}
        self._left = MAX_BYTES

    def read(self, ids: Iterable[UUID]) -> None:
        """Read files ahead, with one query for all."""
        missing = [id_ for id_ in dict.fromkeys(ids) if id_ not in self._files]
        if not missing:
            return
        self._files |= dict.fromkeys(missing)
        texts = code_texts.read_texts(self._pool, missing, self._left) if self._left > 0 else {}
        outlines = code_texts.outlines(self._pool, missing)
        self._outlines |= {id_: outlines.get(id_, ()) for id_ in missing}
        bases = code_texts.bases(self._pool, texts)
        for file in code_texts.read_files(self._pool, missing):
            self._path_of[file.id] = file.path
            rows = texts.get(file.id)
            if not rows:
                continue
            text = joined(rows)
            self._left -= len(text)
            outline = self._outlines[file.id]
            self._files[file.id] = CodeOfFile(file, text, first_line_of(rows), outline, bases.get(file.id, {}))
            self._paths[file.path] = file.id

    def file(self, file_id: UUID) -> CodeOfFile | None:
        """A file; None if too much was read already."""
        self.read([file_id])
        return self._files[file_id]

    def outline(self, file_id: UUID) -> Sequence[Defined]:
        """The definitions of a file, also if its text was not read."""
        self.read([file_id])
        return self._outlines[file_id]

    def path(self, file_id: UUID) -> str | None:
        """The path of a file; None if it was removed meanwhile."""
        self.read([file_id])
        return self._path_of.get(file_id)

    def renamed(self, names: Sequence[str]) -> list[CalledName]:
        """The calls of definitions with these names by other names that imports give them."""
        files = code_texts.renaming(self._pool, self._index, names, MAX_RENAMING, only=self._only)
        self.read(files)
        codes = [code for id_ in files if (code := self._files[id_]) is not None]
        wanted = [(code.file.id, alias) for code in codes for alias in code.imports.aliases(names)]
        return code_texts.calls_by(self._pool, self._index, wanted) if wanted else []

    def named(self, name: str) -> tuple[Defined, ...]:
        """The definitions of a name in all files that count."""
        if name not in self._named:
            found = code_texts.named(self._pool, self._index, name, MAX_NAMED, only=self._only)
            self._named[name] = tuple(found)
        return self._named[name]

    def of_call(self, file_id: UUID, line: int, name: str, within: Defined | None) -> Meaning:
        """What the calls of a name in a line mean, which stand in the definition `within`."""
        code = self.file(file_id)
        if code is None:
            return self._unseen(name, self.outline(file_id))
        receivers = code.receivers(line, name)
        if not receivers:
            return self._unseen(name, code.outline)
        found = [self._meant(code, receiver, name, within) for receiver in receivers]
        best = [each for each in found if each.targets] or found
        return min(best, key=lambda each: CONFIDENCES.index(each.confidence))

    def _unseen(self, name: str, outline: Sequence[Defined]) -> Meaning:
        """What a call means whose line cannot be read: a function of its own file, else any definition of the name."""
        own = tuple(each for each in outline if each.name == name and each.kind != "method")
        return Meaning(own, "likely") if own else Meaning(self.named(name), "by_name")

    def _meant(self, code: CodeOfFile, receiver: str | None, name: str, within: Defined | None) -> Meaning:
        if receiver == "":
            return self._bare(code, name, within, 0)
        if receiver == LITERAL:
            return Meaning((), "resolved")
        if receiver is None:
            return Meaning(self.named(name), "by_name")
        return self._member(code, receiver, name, within)

    def _bare(self, code: CodeOfFile, name: str, within: Defined | None, steps: int) -> Meaning:
        """A name as a place in a file sees it: from the definitions around it, the file, and its imports."""
        around = within.path if within else ""
        while True:
            # a method, also one of a literal, has something before it where it is called
            own = [d for d in code.outline if d.name == name and d.scope == around and d.kind != "method"]
            owner = [each for each in code.outline if around and each.path == around]
            if own and not any(each.kind in WITH_MEMBERS for each in owner):
                return Meaning(tuple(own), "resolved")
            if not around:
                break
            around = around.rpartition("/")[0]
        if code.file.language == "python" or code.file.language in SCRIPTS:
            inner = code.inner_import(name, functions_around(code, within)) if code.imports.inner else None
            if inner is not None:
                return Meaning(self._imported(code, inner, name, steps), "resolved")
            return Meaning(self._exported(code, name, steps, own=False), "resolved")
        if code.file.language in LANGUAGES:
            return self._of_package(code, name, within)
        found = self.named(name)
        return Meaning(found, "likely" if len(found) == 1 else "by_name")

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

    def go_module(self) -> str | None:
        """What `go.mod` calls the module of the folder; None if there is none."""
        self._look_up(["go.mod"])
        file_id = self._paths["go.mod"]
        code = self.file(file_id) if file_id else None
        found = _GO_MODULE.search(code.text) if code else None
        return found[1] if found else None

    def _exported(self, code: CodeOfFile, name: str, steps: int, *, own: bool = True) -> tuple[Defined, ...]:
        """What others get from a file by a name: a definition, or what it imports itself."""
        if own:
            found = tuple(each for each in code.outline if each.name == name and not each.scope)
            if found:
                return found
        if steps > MAX_STEPS:
            return ()
        imported = code.imports.named.get(name)
        if imported is not None:
            return self._imported(code, imported, name, steps)
        for each in code.imports.everything:
            module = self._module(code, each)
            if module and (found := self._exported(module, name, steps + 1)):
                return found
        return ()

    def _imported(self, code: CodeOfFile, imported: Imported, name: str, steps: int) -> tuple[Defined, ...]:
        module = self._module(code, imported.module)
        # a default export has any name where it is imported
        return self._exported(module, imported.name or name, steps + 1) if module else ()

    def _module(self, code: CodeOfFile, module: str) -> CodeOfFile | None:
        """The file of a module, as another file imports it; None if the folder has none."""
        paths = module_paths(module, code.file.path, code.file.language)
        packages = {path: package for path in paths if (package := package_above(path, module, code.file.language))}
        self._look_up([*paths, *packages.values()])
        for path in paths:
            file_id = self._paths[path]
            if path in packages and self._paths[packages[path]] is not None:
                continue
            if file_id is not None and path != code.file.path:
                return self.file(file_id)
        return None

    def _look_up(self, paths: Iterable[str]) -> None:
        unknown = [path for path in paths if path not in self._paths]
        if unknown:
            self._paths |= dict.fromkeys(unknown)
            self._paths |= code_texts.at_paths(self._pool, self._index, unknown, only=self._only)

    def _member(self, code: CodeOfFile, receiver: str, name: str, within: Defined | None) -> Meaning:
        """A member of what stands before it."""
        # a path of Rust never begins with a variable, and what stands before a dot never is a path
        is_value = code.file.language == "rust" and not receiver.endswith(PATH)
        receiver = receiver.removesuffix(PATH).replace(PATH, ".")
        head, _, rest = receiver.partition(".")
        if head in _OWN and not (head == "super" and code.file.language == "rust"):
            owner = next(classes_around(code, within), None)
            if owner is None:
                return Meaning(self.named(name), "by_name")
            if rest:
                return self._of_attribute(owner, rest, name)
            return self._of_class(owner, name, skip=head in _INHERITED)
        if code.file.language in LANGUAGES:
            is_variable = is_value and receiver.isidentifier()
            way = self._of_variable if is_variable else self._qualified
            return way(code, receiver, name, within)
        module = self._module_called(code, receiver)
        if module is not None:
            return Meaning(self._exported(module, name, 0), "resolved")
        return Meaning(self.named(name), "by_name") if rest else self._of_word(code, head, name, within)

    def _qualified(self, code: CodeOfFile, receiver: str, name: str, within: Defined | None) -> Meaning:
        """A member of a package, a module, a class, or a variable and its attributes."""
        head, _, rest = receiver.partition(".")
        imported = code.imports.named.get(head)
        if code.file.language == "go" and imported is not None and not rest:
            return in_module(self, code, Imported(imported.module, name))
        if not rest:
            found = self._of_word(code, head, name, within)
            if found.confidence != "by_name" or code.file.language != "rust":
                return found
        elif "(" not in receiver:
            owner = self._class_of(code, receiver, within)
            if owner is not None:
                return self._of_class(owner, name)
        if code.file.language == "rust" and head.islower() and "(" not in receiver:
            before = f"{imported.module}::{imported.name}" if imported else head
            module = "::".join(filter(None, (before, *filter(None, rest.split(".")))))
            found = in_module(self, code, Imported(module, name))
            if found.confidence == "resolved":
                return found
        holders = self._classes_of_variable(code, head, within) if rest and "(" not in head else ()
        if len(holders) == 1:
            return self._of_attribute(holders[0], rest, name)
        return Meaning(self.named(name), "by_name")

    def _classes_of_variable(self, code: CodeOfFile, variable: str, within: Defined | None) -> Sequence[Defined]:
        for around in [*functions_around(code, within), None]:
            lines = code.between(around.start_line, around.end_line) if around else code.code
            kinds = dict.fromkeys(given(lines, variable, code.file.language))
            found = [self._class_of(code, each, around) for each in kinds]
            if found:
                return [each for each in dict.fromkeys(found) if each is not None]
        return ()

    def _of_word(self, code: CodeOfFile, head: str, name: str, within: Defined | None) -> Meaning:
        """A member of a class, of what a function returns, or of a variable."""
        called, is_call, _ = head.partition("(")
        found = self._bare(code, called, within, 0)
        owner = self._one_class(code, found.targets)
        if owner is not None and (found.confidence != "by_name" or is_call):
            return self._of_class(owner, name)
        if is_call:
            result = self._returned(found.targets)
            meant = self._of_class(result, name).targets if result else ()
            return Meaning(meant, "likely") if meant else Meaning(self.named(name), "by_name")
        if called in code.imports.named and not found.targets:
            # it comes from outside the folder, and so does what it has
            return Meaning((), "likely")
        return self._of_variable(code, head, name, within)

    def _module_called(self, code: CodeOfFile, receiver: str) -> CodeOfFile | None:
        """The module that a receiver is: `a`, or `a.b` if `a` is imported."""
        head, _, rest = receiver.partition(".")
        imported = code.imports.named.get(head)
        if imported is None or "(" in receiver:
            return None
        dotted = ".".join(filter(None, (imported.module.rstrip("."), imported.name, rest)))
        dotted = "." * (len(imported.module) - len(imported.module.lstrip("."))) + dotted.lstrip(".")
        if code.file.language in SCRIPTS:
            return None if imported.name or rest else self._module(code, imported.module)
        return self._module(code, dotted)

    def _of_attribute(self, owner: Defined, attribute: str, name: str) -> Meaning:
        """A member of an attribute of a class, if the class or one that it inherits from shows what it is."""
        for each, code in self._lineage(owner) if "." not in attribute else ():
            lines = code.between(each.start_line, each.end_line)
            found = self._of_given(code, lines, attribute, name, each)
            if found.confidence != "by_name":
                return found
        return Meaning(self.named(name), "by_name")

    def _of_variable(self, code: CodeOfFile, variable: str, name: str, within: Defined | None) -> Meaning:
        """A member of a variable, if its function or its file shows what it is."""
        for around in [*functions_around(code, within), None]:
            lines = code.between(around.start_line, around.end_line) if around else code.code
            found = self._of_given(code, lines, variable, name, around)
            if found.confidence != "by_name":
                return found
        return Meaning(self.named(name), "by_name")

    def _of_given(self, code: CodeOfFile, lines: str, variable: str, name: str, around: Defined | None) -> Meaning:
        """A member of what the lines assign to a variable, or annotate it with."""
        kinds = dict.fromkeys(given(lines, variable, code.file.language))
        found = [self._class_of(code, each, around) for each in kinds]
        classes = {each: None for each in found if each is not None}
        if not classes or len(classes) < len(kinds) - 1:
            return Meaning(self.named(name), "by_name")
        meant = [self._of_class(each, name) for each in classes]
        if any(each.confidence == "by_name" for each in meant):
            return Meaning(self.named(name), "by_name")
        targets = tuple(dict.fromkeys(target for each in meant for target in each.targets))
        sure = len(kinds) == 1 and meant[0].confidence == "resolved"
        return Meaning(targets, "resolved" if sure else "likely") if targets else Meaning(self.named(name), "by_name")

    def _class_of(self, code: CodeOfFile, dotted: str, around: Defined | None, *, calls: bool = True) -> Defined | None:
        """The class that a name is, or with `calls` that a function of that name returns."""
        *module, last = dotted.split(".")
        if last == "Self":
            return next(classes_around(code, around), None)
        if module and code.file.language in LANGUAGES:
            found = self._member_of(code, ".".join(module), last, around)
        elif module:
            home = self._module_called(code, ".".join(module))
            found = self._exported(home, last, 0) if home else ()
        else:
            found = self._bare(code, last, around, 0).targets
        return self._one_class(code, found) or (self._returned(found) if calls else None)

    def _member_of(self, code: CodeOfFile, module: str, last: str, around: Defined | None) -> tuple[Defined, ...]:
        """What a package, a module or a class has by a name."""
        imported = code.imports.named.get(module)
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
        return self._one_class(home, self._bare(home, name, functions[0], 0).targets)

    def _base(self, code: CodeOfFile, owner: Defined, base: str) -> list[Defined]:
        """The classes that a base of a class is, of which rows know the last part of its name alone."""
        before = text_before(code, owner, base)
        if MEMBER.search(before):
            receiver = RECEIVER.search(before.rstrip())
            home = self._module_called(code, receiver[1]) if receiver else None
            found = self._exported(home, base, 0) if home else ()
        else:
            found = self._bare(code, base, None, 0).targets
        return [each for each in found if each.kind in CLASSES and each != owner]

    def _of_class(self, owner: Defined, name: str, *, skip: bool = False) -> Meaning:
        """A member of a class, its own or inherited. `skip`: only an inherited one."""
        for each, code in self._lineage(owner):
            own = tuple(d for d in code.outline if d.name == name and d.scope == each.path)
            if not own and code.file.language == "go":
                own = self._beside(each, code, name)
            if own and not (skip and each == owner):
                return Meaning(own, "resolved")
        # a class from outside the folder has what `super()` calls; a subclass may have what `self` calls
        others = () if skip else tuple(each for each in self.named(name) if each.kind == "method")
        return Meaning(others, "by_name" if others else "likely")

    def _beside(self, owner: Defined, code: CodeOfFile, name: str) -> tuple[Defined, ...]:
        """The methods of a type of Go in all files of its package."""
        folder = posixpath.dirname(code.file.path)
        methods = [each for each in self.named(name) if each.scope == owner.name]
        return tuple(each for each in methods if posixpath.dirname(self.path(each.file_id) or "") == folder)

    def _parts(self, owner: Defined, code: CodeOfFile) -> list[Defined]:
        """The other parts of a class, such as what Rust implements for a type."""
        like = [each for each in self.named(owner.name) if each.path == owner.path and each.kind in CLASSES]
        return [each for each in like if is_same_language(self, code, each)]

    def _lineage(self, owner: Defined) -> Iterator[tuple[Defined, CodeOfFile]]:
        """A class and those that it inherits from, each with its file."""
        seen: dict[Defined, None] = {}
        left = [owner]
        while left:
            each = left.pop(0)
            code = self.file(each.file_id)
            if each in seen or code is None:
                continue
            seen[each] = None
            yield each, code
            for base in code.bases.get(each.path, ()):
                left += self._base(code, each, base)
            if code.file.language in WITH_PARTS:
                left += self._parts(each, code)

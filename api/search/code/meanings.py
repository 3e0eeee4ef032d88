"""Finds which definition a call means: by the classes, imports and assignments that the code around it shows.

It reads code as a person does who looks at one screen of it. What it cannot see it does not guess: then the call means
any definition of its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from api.search.code.imports import SCRIPTS, Imported, Imports, module_paths, package_above, read_imports
from api.search.code.masked import masked
from api.search.code.reads import mentions
from api.search.text.file_text import first_line_of, joined
from schemas.queries.symbol import Confidence
from worker.state.pool import Pool
from worker.state.search import code_texts
from worker.state.search.code_texts import CalledName, CodeFile, Defined

#: The surest first.
CONFIDENCES: tuple[Confidence, ...] = ("resolved", "likely", "by_name")
#: Bytes of code that one request reads, and definitions of one name.
MAX_BYTES = 8_000_000
MAX_NAMED = 100
#: Files that are looked through for other names of a definition.
MAX_RENAMING = 100
#: Imports, bases or assignments that are followed one after another.
MAX_STEPS = 8
#: Lines in which the bases of a class stand.
_MAX_HEAD_LINES = 12
#: Characters before a call in which its receiver is looked for.
_MAX_RECEIVER = 200

#: Kinds of definitions that have members.
CLASSES = frozenset({"class", "interface", "struct", "enum", "trait", "impl", "type", "module"})
#: Those of them whose members need a name before them. Within a namespace, its own names do not.
_WITH_MEMBERS = CLASSES - {"module"}
#: What stands before a method of a string.
LITERAL, _QUOTES = "''", frozenset({'"', "'", "`"})
_MEMBER = re.compile(r"(?:\?\.|\.|::|->)\s*$")
_RECEIVER = re.compile(
    r"([A-Za-z_]\w{0,99}(?:\([^()\n]{0,80}\))?(?:\??\.[A-Za-z_]\w{0,99}){0,6})\s{0,40}(?:\?\.|\.|::|->)$"
)
_OWN = frozenset({"self", "cls", "this", "Self", "super()"})
#: What gives a variable its class: an annotation, or a call.
_GIVEN = re.compile(
    r"[ \t]*\??:[ \t]*(?:Optional\[|type\[)?[\"']?([A-Za-z_][\w.]*)"
    r"|[ \t]*(?::=|=)[ \t]*(?:await[ \t]+|new[ \t]+)?([A-Za-z_][\w.]*)[ \t]*(\(?)"
)
_AS = re.compile(r"([A-Za-z_][\w.]{0,99})[ \t]{0,9}\([^()\n]{0,99}\)[ \t]{1,9}as[ \t]{1,9}$")
_RETURNS = re.compile(r"(?:->|\)\s*:)\s*(?:Promise<)?[\"']?([A-Za-z_][\w.]*)")
_BREAK = re.compile(r"\n")


@dataclass(frozen=True, slots=True)
class Meaning:
    """The definitions that a call may mean; none: what it calls is not in the folder."""

    targets: tuple[Defined, ...]
    confidence: Confidence


@dataclass(slots=True)
class CodeOfFile:
    """One file of code as far as it was read: without its text, calls in it are followed by name."""

    file: CodeFile
    text: str
    first_line: int
    outline: Sequence[Defined]
    bases: dict[str, list[str]]
    code: str = field(init=False)
    breaks: list[int] = field(init=False)
    imports: Imports = field(init=False)

    def __post_init__(self) -> None:
        self.code = masked(self.text, self.file.language)
        self.breaks = [-1, *(found.start() for found in _BREAK.finditer(self.code)), len(self.code)]
        self.imports = read_imports(self.text, self.code, self.file.language)

    def between(self, first: int, last: int) -> str:
        """The code of some lines."""
        return self.code[self.offset(first) : max(0, self.offset(last + 1) - 1)]

    def inner_import(self, name: str, functions: Iterable[Defined]) -> Imported | None:
        """What an import within one of these functions brings by a name."""
        for each in functions:
            first, last = (self.offset(line) for line in (each.start_line, each.end_line + 1))
            for place, alias, imported in self.imports.inner:
                if alias == name and first <= place < last:
                    return imported
        return None

    def offset(self, line: int) -> int:
        """Where a line begins in the code that was read."""
        number = min(max(0, line - self.first_line), len(self.breaks) - 1)
        return self.breaks[number] + 1

    def receivers(self, line: int, name: str) -> list[str | None]:
        """What stands before the calls of a name in a line: "" nothing, None something that cannot be read."""
        number = line - self.first_line
        if not 0 <= number < len(self.breaks) - 1:
            return []
        start = self.breaks[number] + 1
        found: list[str | None] = []
        for place in mentions(self.code[start : self.breaks[number + 1]], name):
            before = self.code[max(0, start + place - _MAX_RECEIVER) : start + place]
            if member := _MEMBER.search(before):
                end = start + place - len(member[0])
                receiver = _RECEIVER.search(before.rstrip())
                is_text = end > 0 and self.text[end - 1] in _QUOTES
                found.append(LITERAL if is_text else receiver[1] if receiver else None)
            else:
                found.append("")
        return found


class Meanings:
    """Finds meanings in the code of one index, and remembers what it read."""

    def __init__(self, pool: Pool, index_id: UUID) -> None:
        self._pool, self._index = pool, index_id
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
        files = code_texts.renaming(self._pool, self._index, names, MAX_RENAMING)
        self.read(files)
        codes = [code for id_ in files if (code := self._files[id_]) is not None]
        wanted = [(code.file.id, alias) for code in codes for alias in code.imports.aliases(names)]
        return code_texts.calls_by(self._pool, self._index, wanted) if wanted else []

    def named(self, name: str) -> tuple[Defined, ...]:
        """The definitions of a name in the whole index."""
        if name not in self._named:
            self._named[name] = tuple(code_texts.named(self._pool, self._index, name, MAX_NAMED))
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
            if own and not any(each.kind in _WITH_MEMBERS for each in owner):
                return Meaning(tuple(own), "resolved")
            if not around:
                break
            around = around.rpartition("/")[0]
        if code.file.language == "python" or code.file.language in SCRIPTS:
            inner = code.inner_import(name, _functions_around(code, within)) if code.imports.inner else None
            if inner is not None:
                return Meaning(self._imported(code, inner, name, steps), "resolved")
            return Meaning(self._exported(code, name, steps, own=False), "resolved")
        found = self.named(name)
        return Meaning(found, "likely" if len(found) == 1 else "by_name")

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
            self._paths |= code_texts.at_paths(self._pool, self._index, unknown)

    def _member(self, code: CodeOfFile, receiver: str, name: str, within: Defined | None) -> Meaning:
        """A member of what stands before it."""
        head, _, rest = receiver.partition(".")
        if head in _OWN:
            owner = _class_around(code, within)
            if owner is None:
                return Meaning(self.named(name), "by_name")
            if rest:
                return self._of_attribute(code, owner, rest, name)
            return self._of_class(owner, name, skip=head == "super()")
        module = self._module_called(code, receiver)
        if module is not None:
            return Meaning(self._exported(module, name, 0), "resolved")
        return Meaning(self.named(name), "by_name") if rest else self._of_word(code, head, name, within)

    def _of_word(self, code: CodeOfFile, head: str, name: str, within: Defined | None) -> Meaning:
        """A member of a class, of what a function returns, or of a variable."""
        called, is_call, _ = head.partition("(")
        found = self._bare(code, called, within, 0)
        classes = [each for each in found.targets if each.kind in CLASSES]
        if len(classes) == 1:
            return self._of_class(classes[0], name)
        if is_call:
            returned = self._returned(found.targets)
            meant = self._of_class(returned, name).targets if returned else ()
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

    def _of_attribute(self, code: CodeOfFile, owner: Defined, attribute: str, name: str) -> Meaning:
        """A member of an attribute of a class, if the class shows what it is."""
        if "." in attribute:
            return Meaning(self.named(name), "by_name")
        home = self.file(owner.file_id) or code
        lines = home.between(owner.start_line, owner.end_line)
        return self._of_given(home, lines, attribute, name, owner)

    def _of_variable(self, code: CodeOfFile, variable: str, name: str, within: Defined | None) -> Meaning:
        """A member of a variable, if its function or its file shows what it is."""
        for around in [*_functions_around(code, within), None]:
            lines = code.between(around.start_line, around.end_line) if around else code.code
            found = self._of_given(code, lines, variable, name, around)
            if found.confidence != "by_name":
                return found
        return Meaning(self.named(name), "by_name")

    def _of_given(self, code: CodeOfFile, lines: str, variable: str, name: str, around: Defined | None) -> Meaning:
        """A member of what the lines assign to a variable, or annotate it with."""
        kinds = dict.fromkeys(_given(lines, variable))
        found = [self._class_of(code, each, around) for each in kinds]
        classes = {each: None for each in found if each is not None}
        if not classes or len(classes) < len(kinds) - 1:
            return Meaning(self.named(name), "by_name")
        meant = [self._of_class(each, name) for each in classes]
        targets = tuple(dict.fromkeys(target for each in meant for target in each.targets))
        sure = len(kinds) == 1 and meant[0].confidence == "resolved"
        return Meaning(targets, "resolved" if sure else "likely") if targets else Meaning(self.named(name), "by_name")

    def _class_of(self, code: CodeOfFile, dotted: str, around: Defined | None) -> Defined | None:
        """The class that a name is, or that a function of that name returns."""
        *module, last = dotted.split(".")
        if module:
            home = self._module_called(code, ".".join(module))
            found = self._exported(home, last, 0) if home else ()
        else:
            found = self._bare(code, last, around, 0).targets
        if len(found) == 1 and found[0].kind in CLASSES:
            return found[0]
        return self._returned(found)

    def _returned(self, functions: Sequence[Defined]) -> Defined | None:
        """The class that functions return, by their signature."""
        returned = {stated[1] for each in functions if (stated := _RETURNS.search(each.signature))}
        if len(returned) != 1 or not functions:
            return None
        home = self.file(functions[0].file_id)
        found = self._bare(home, returned.pop(), functions[0], 0).targets if home else ()
        return found[0] if len(found) == 1 and found[0].kind in CLASSES else None

    def _base(self, code: CodeOfFile, owner: Defined, base: str) -> list[Defined]:
        """The classes that a base of a class is, of which rows know the last part of its name alone."""
        before = _text_before(code, owner, base)
        if _MEMBER.search(before):
            receiver = _RECEIVER.search(before.rstrip())
            home = self._module_called(code, receiver[1]) if receiver else None
            found = self._exported(home, base, 0) if home else ()
        else:
            found = self._bare(code, base, None, 0).targets
        return [each for each in found if each.kind in CLASSES and each != owner]

    def _of_class(self, owner: Defined, name: str, *, skip: bool = False) -> Meaning:
        """A member of a class, its own or inherited. `skip`: only an inherited one."""
        seen: dict[Defined, None] = {}
        left = [owner]
        while left:
            each = left.pop(0)
            code = self.file(each.file_id)
            if each in seen or code is None:
                continue
            seen[each] = None
            own = tuple(d for d in code.outline if d.name == name and d.scope == each.path)
            if own and not (skip and each == owner):
                return Meaning(own, "resolved")
            for base in code.bases.get(each.path, ()):
                found = self._base(code, each, base)
                left += found
        # a class from outside the folder has what `super()` calls; a subclass may have what `self` calls
        others = () if skip else tuple(each for each in self.named(name) if each.kind == "method")
        return Meaning(others, "by_name" if others else "likely")


def _text_before(code: CodeOfFile, owner: Defined, base: str) -> str:
    """What stands before a base in the head of a class, such as `module.`."""
    head = code.between(owner.start_line, min(owner.end_line, owner.start_line + _MAX_HEAD_LINES))
    places = [place for place in mentions(head, base) if place]
    start = places[-1] if len(places) == 1 else next((p for p in places if _MEMBER.search(head[:p][-9:])), None)
    return "" if start is None else head[max(0, start - _MAX_RECEIVER) : start]


def _class_around(code: CodeOfFile, within: Defined | None) -> Defined | None:
    path = within.path if within else ""
    while path:
        for each in code.outline:
            if each.path == path and each.kind in CLASSES:
                return each
        path = path.rpartition("/")[0]
    return None


def _functions_around(code: CodeOfFile, within: Defined | None) -> list[Defined]:
    """The definition and the functions around it, the innermost first."""
    found = [within] if within else []
    path = within.scope if within else ""
    while path:
        found += [each for each in code.outline if each.path == path and each.kind not in CLASSES][:1]
        path = path.rpartition("/")[0]
    return found


def _given(lines: str, variable: str) -> Iterable[str]:
    """The classes, or functions that return them, which the lines give a variable."""
    for start in mentions(lines, variable):
        end = start + len(variable)
        if (found := _GIVEN.match(lines, end)) and (found[1] or found[3]):
            yield found[1] or found[2]
        elif found := _AS.search(lines[max(0, start - _MAX_RECEIVER) : start]):
            yield found[1]

"""What calls mean takes time linear in them, and does not depend on what was asked before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations
from typing import Any
from uuid import UUID, uuid4

import pytest

from api.search.code import bare_members
from api.search.code.code_of_file import CodeOfFile, Meaning
from api.search.code.meanings import Meanings
from worker.state.search.code_texts import CodeFile, Defined


class Code(Meanings):
    """The code of files that are in memory."""

    def __init__(self, files: dict[str, tuple[str, str, Sequence[Defined], dict[str, list[str]]]]) -> None:
        super().__init__(None, uuid4())  # type: ignore[arg-type] # nothing is read
        for path, (language, text, outline, bases) in files.items():
            id_ = outline[0].file_id if outline else uuid4()
            file = CodeFile(id_, path, language)
            self._files[id_] = CodeOfFile(file, text, 1, outline, bases)
            self._paths[path], self._path_of[id_], self._outlines[id_] = id_, path, outline

    def read(self, ids: Iterable[UUID]) -> None:
        """All is read."""

    def named(self, name: str) -> tuple[Defined, ...]:
        return tuple(each for outline in self._outlines.values() for each in outline if each.name == name)

    def _look_up(self, paths: Iterable[str]) -> None:
        self._paths |= {path: None for path in paths if path not in self._paths}

    def at(self, path: str) -> CodeOfFile:
        return next(code for code in self._files.values() if code and code.file.path == path)


def function(name: str) -> Defined:
    return Defined(uuid4(), 0, name, "function", "", 1, 1, f"function {name}()")


def barrels(names: Iterable[str], stars: dict[str, str], defined: str, name: str) -> Code:
    files: dict[str, Any] = {
        f"{each}.ts": ("typescript", "".join(f"export * from './{other}'\n" for other in stars[each]), [], {})
        for each in names
    }
    return Code({**files, f"{defined}.ts": ("typescript", f"export function {name}() {{}}\n", [function(name)], {})})


@pytest.mark.parametrize(
    "stars", [{"a": "b", "b": "ac"}, {"a": "bc", "b": "ad", "d": "ba"}, {"a": "db", "b": "dc", "d": "ba"}]
)
def test_modules_in_a_circle_pass_on_the_same_to_all(stars: dict[str, str]) -> None:
    for order in permutations(stars):
        code = barrels(stars, stars, "c", "f")
        found = {path: code._exported(code.at(f"{path}.ts"), "f") for path in order}
        assert {(len(each.targets), each.confidence) for each in found.values()} == {(1, "resolved")}, order


def test_what_is_too_far_is_known_by_name_whichever_is_asked_first() -> None:
    names = [chr(ord("a") + number) for number in range(14)]
    stars = dict(zip(names, [*names[1:], "z"], strict=True))
    answers = []
    for order in (names, names[::-1]):
        code = barrels(names, stars, "z", "f")
        found = {name: code._exported(code.at(f"{name}.ts"), "f") for name in order}
        assert all(each.targets for each in found.values())
        assert not code.exports.is_cut
        answers.append({name: each.confidence for name, each in found.items()})
    assert answers[0] == answers[1]
    assert answers[0]["a"] == "by_name"
    assert answers[0]["n"] == "resolved"
    code = barrels(names, stars, "z", "f")
    assert not code._exported(code.at("a.ts"), "other").targets
    assert code.exports.is_cut


def test_a_short_way_counts_though_a_long_one_was_tried_first() -> None:
    stars = {**dict(zip("bcdefgh", "cdefghx", strict=True)), "r": "bx", "x": "y", "y": "z"}
    code = barrels(stars, stars, "z", "f")
    assert code._exported(code.at("r.ts"), "f").confidence == "resolved"


def test_a_name_is_looked_for_once_in_each_function(monkeypatch: pytest.MonkeyPatch) -> None:
    read, seen = Counter[str](), Counter[str]()
    visible = Meanings._visible

    def is_local(_lines: str, signature: str, _name: str) -> bool:
        read[signature] += 1
        return False

    def looked(self: Meanings, code: CodeOfFile, name: str, within: Defined | None) -> Meaning:
        seen[name] += 1
        return visible(self, code, name, within)

    monkeypatch.setattr(bare_members, "is_local", is_local)
    monkeypatch.setattr(Meanings, "_visible", looked)
    id_, count = uuid4(), 20
    outline = [
        Defined(id_, 0, "go", "function", "", 1, 2, "def go()"),
        Defined(id_, 1, "many", "function", "", 3, 3 + 4 * count, "def many()"),
    ]
    text = "def go():\n    pass\ndef many():\n"
    for number in range(count):
        first = 4 + 4 * number
        outline.append(Defined(id_, 2 + number, f"i{number}", "function", "many", first, first + 2, f"i{number}"))
        text += f"    def i{number}():\n        go()\n        go()\n    go()\n"
    code = Code({"a.py": ("python", text, outline, {})})
    for number, inner in enumerate(outline[2:]):
        first = 4 + 4 * number
        for line, within in ((first + 1, inner), (first + 2, inner), (first + 3, outline[1])):
            assert code.of_call(id_, line, "go", within)[0].targets == (outline[0],)
    assert set(read.values()) == {1}
    assert read.total() == seen.total() == count + 1


@pytest.mark.parametrize(
    ("language", "call", "head"),
    [
        ("ruby", "m0()", "class K{0} < K{1}"),
        ("python", "self.m0()", "class K{0}(K{1}):"),
        ("java", "m0();", "class K{0} extends K{1} {{"),
    ],
)
def test_classes_are_walked_once_for_each_name(
    language: str, call: str, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_, depth, callers = uuid4(), 20, 30
    walked = Counter[str]()
    lineage = Meanings._lineage

    def walk(self: Meanings, owner: Defined) -> Iterator[tuple[Defined, CodeOfFile]]:
        walked[owner.name] += 1
        return lineage(self, owner)

    monkeypatch.setattr(Meanings, "_lineage", walk)
    lines: list[str] = []
    outline: list[Defined] = []
    for number in range(depth):
        first = len(lines) + 1
        last = first + (callers if number == depth - 1 else 1)
        outline.append(Defined(id_, len(outline), f"K{number}", "class", "", first, last, ""))
        lines.append(head.format(number, number - 1))
        if number == 0:
            outline.append(Defined(id_, len(outline), "m0", "method", "K0", first + 1, first + 1, "m0()"))
            lines.append("  m0")
        elif number < depth - 1:
            lines.append("")
    top = f"K{depth - 1}"
    for number in range(callers):
        line = len(lines) + 1
        outline.append(Defined(id_, len(outline), f"c{number}", "method", top, line, line, f"c{number}()"))
        lines.append(f"  {call}")
    bases = {f"K{number}": [f"K{number - 1}"] for number in range(1, depth)}
    code = Code({f"a.{language[:2]}": (language, "\n".join(lines), outline, bases)})
    for each in outline[-callers:]:
        assert [target.scope for target in code.of_call(id_, each.start_line, "m0", each)[0].targets] == ["K0"]
    assert walked[top] == 1

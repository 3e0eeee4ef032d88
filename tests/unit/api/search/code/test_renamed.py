"""Other names of definitions are found in time linear in the files that give them."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4

from api.search.code.code_of_file import CodeOfFile, Meaning
from api.search.code.imports import Imported
from api.search.code.renamed import other_names
from tests.pumps import grows_too_fast
from worker.state.search.code_texts import CodeFile, Defined


class Reader:
    """One file that imports, and another one."""

    def __init__(self, home: CodeOfFile, user: CodeOfFile) -> None:
        self._home, self._user = home, user

    def file(self, file_id: UUID) -> CodeOfFile | None:
        return self._home if file_id == self._home.file.id else self._user

    def importing(self, _names: Sequence[str], _modules: Sequence[str]) -> tuple[list[CodeOfFile], bool]:
        return [self._user], False

    def imported(self, _code: CodeOfFile, _imported: Imported) -> Meaning:
        return Meaning((), "resolved")


def script(path: str, text: str) -> CodeOfFile:
    return CodeOfFile(CodeFile(uuid4(), path, "typescript"), text, 1, [], {})


def test_one_file_may_give_and_pass_on_many_names() -> None:
    home = script("x.ts", "export function f() {}\n")
    node = Defined(home.file.id, 0, "f", "function", "", 1, 1, "function f()")

    def text(size: int) -> str:
        return "".join(
            f"import {{ f as a{each} }} from './x'\nexport {{ a{each} as b{each} }};\n" for each in range(size)
        )

    def named(code: str) -> set[str]:
        return other_names(Reader(home, script("y.ts", code)), [node], ["f"]).everywhere

    assert named(text(3)) == {"b0", "b1", "b2"}
    assert not grows_too_fast(named, text, 3_200)

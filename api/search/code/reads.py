"""Finds where code reads or assigns a name, beyond the calls, imports, bases and types that rows hold."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from api.search.code.masked import masked
from api.search.text.file_text import first_line_of, joined
from schemas.queries.search import Note
from worker.formats.grammars import GRAMMARS
from worker.state.pool import Pool
from worker.state.search import code_texts
from worker.state.search.code_texts import CodeFile, Defined, Only
from worker.state.search.snippets import TextRow
from worker.state.search.symbols import AddedUse

#: Files that are looked through, the first by path, and bytes of them.
MAX_FILES = 400
MAX_BYTES = 16_000_000
#: Files whose texts are held in memory at a time.
_BATCH = 40

_BREAK = re.compile(r"\n")
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
#: What follows a name that gets a value.
_ASSIGNED = re.compile(r"[ \t]*(?::[^=\n(]{1,200})?(?:[-+*/%&|^@]|//|\*\*|<<|>>)?=(?![=>])")
#: What stands before an argument that has the name.
_IN_CALL = re.compile(r"[(,]\s*$")


@dataclass(slots=True)
class FoundReads:
    """Reads of a name, and what the answer lacks."""

    uses: list[AddedUse] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def find_reads(pool: Pool, index_id: UUID, name: str, only: Only = None) -> FoundReads:
    """Find the lines of code that read or assign a name, in `only` these files. Strings and comments do not count."""
    found = FoundReads()
    if not _IDENTIFIER.fullmatch(name):
        return found
    files = code_texts.containing(pool, index_id, name, MAX_FILES + 1, only=only)
    if files is None:
        found.notes.append(_note("reads_left_out", "The folder is too large to look for reads; grep finds them."))
        return found
    if len(files) > MAX_FILES:
        found.notes.append(
            _note("reads_cut", f"Reads are of the first {MAX_FILES} files that contain the name; grep finds the rest.")
        )
    found.notes += _without_uses(files)
    known = [file for file in files[:MAX_FILES] if file.language in GRAMMARS]
    left = MAX_BYTES
    for start in range(0, len(known), _BATCH):
        batch = known[start : start + _BATCH]
        texts = code_texts.read_texts(pool, [file.id for file in batch], left)
        left -= sum(len(row.chunk_text) for rows in texts.values() for row in rows)
        found.uses += _of_files(pool, index_id, name, [(file, texts[file.id]) for file in batch if file.id in texts])
        if len(texts) < len(batch):
            found.notes.append(_note("reads_cut", "Reads in further or large files were left out; grep finds them."))
            break
    return found


def not_followed(pool: Pool, index_id: UUID, name: str, only: Only = None) -> list[Note]:
    """Gaps of callers and callees of a name: files that contain it in languages whose calls are not recorded."""
    if not _IDENTIFIER.fullmatch(name):
        return []
    files = code_texts.containing(pool, index_id, name, MAX_FILES + 1, without=GRAMMARS, only=only)
    if files is None:
        return [_note("reads_left_out", "The folder is too large to look for such languages; grep finds the name.")]
    return list(_without_uses(files))


def _note(code: Literal["reads_left_out", "reads_cut", "no_uses"], detail: str) -> Note:
    return Note(code=code, detail=detail)


def _without_uses(files: Iterable[CodeFile]) -> Iterator[Note]:
    """The note on languages whose uses are not recorded."""
    languages = Counter(str(file.language) for file in files if file.language not in GRAMMARS)
    if languages:
        named = ", ".join(f"{language} ({number})" for language, number in sorted(languages.items()))
        yield _note("no_uses", f"Files that contain the name, but whose uses are not known: {named}; grep finds them.")


def _of_files(
    pool: Pool, index_id: UUID, name: str, texts: Sequence[tuple[CodeFile, Sequence[TextRow]]]
) -> Iterator[AddedUse]:
    ids = [file.id for file, _ in texts]
    used, defined = defaultdict[UUID, set[int]](set), defaultdict[UUID, list[int]](list)
    for file_id, line, is_definition in code_texts.known_lines(pool, index_id, name, ids):
        (defined[file_id].append if is_definition else used[file_id].add)(line)
    outlines = code_texts.outlines(pool, ids)
    for file, rows in texts:
        lines = _lines(masked(joined(rows), file.language), name, first_line_of(rows), used[file.id], defined[file.id])
        for line, kind in lines.items():
            scope = innermost(outlines.get(file.id, ()), line)
            yield AddedUse(file.id, kind, scope.path if scope else "", line)


def _lines(code: str, name: str, first: int, used: set[int], defined: Sequence[int]) -> dict[int, str]:
    """The lines that read or assign the name, with the kind, without those that are known already."""
    breaks = [found.start() for found in _BREAK.finditer(code)]
    named = set[int]()
    lines: dict[int, str] = {}
    for start in mentions(code, name):
        line = first + bisect_right(breaks, start)
        # the name of a definition is its first mention from where it begins
        begun = [each for each in defined if each <= line and each not in named]
        if begun:
            named.add(max(begun))
            continue
        if line in used:
            continue
        is_assigned = _ASSIGNED.match(code, start + len(name)) is not None
        if is_assigned and _IN_CALL.search(code, max(0, start - 200), start):
            continue
        kind = "write" if is_assigned else "read"
        if lines.get(line) != "read":
            lines[line] = kind
    return lines


def mentions(code: str, name: str) -> Iterator[int]:
    """The places of a name in a text as a whole word."""
    start = code.find(name)
    while start >= 0:
        end = start + len(name)
        if not _is_word(code[start - 1 : start]) and not _is_word(code[end : end + 1]):
            yield start
        start = code.find(name, end)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def innermost(outline: Sequence[Defined], line: int) -> Defined | None:
    """The innermost definition that contains a line, of a file's definitions in order."""
    around = [each for each in outline if each.start_line <= line <= each.end_line]
    return max(around, key=lambda each: (each.start_line, each.number)) if around else None

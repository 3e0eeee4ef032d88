"""Shows what a change to a name may affect."""

from __future__ import annotations

import re
from threading import Event
from typing import Literal

from api.http.sight import SeenIndex
from api.search.code.reads import find_reads
from api.search.grep.grep import grep
from schemas.queries.grep import MAX_LINES, Grep, GrepHit
from schemas.queries.symbol import Impact, Use
from worker.resources import Resources
from worker.state.search import symbols
from worker.state.search.code_texts import Only

#: Files that test others, by the habits of all languages that are parsed.
_TEST = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__|testing)/|(?:^|/)(?:test_|conftest\.)[^/]*$|[._-](?:test|spec)\.[a-z]+$"
    r"|(?:Test|Tests|Spec)\.[a-z]+$"
)

_PARTS: tuple[Literal["definitions", "references", "tests", "text"], ...] = (
    "definitions",
    "references",
    "tests",
    "text",
)


def impact(
    resources: Resources,
    index: SeenIndex,
    name: str,
    limit: int,
    disconnected: Event,
    only: Only,
) -> Impact:
    """Find definitions, uses, uses in tests and other lines of a name in some files, at most `limit` of each."""
    _, last = symbols.qualified(name)
    pool = resources.pool
    defined = symbols.definitions(pool, index.id, name=name, only=only, limit=limit + 1)
    reads = find_reads(pool, index.id, last, only)
    used = symbols.references(pool, index.id, name=name, added=reads.uses, only=only, limit=MAX_LINES)
    lines = Grep(pattern=last, word=True, case_sensitive=True, head_limit=MAX_LINES)
    found = grep(resources, index, lines, disconnected=disconnected, only=None if only is None else frozenset(only))
    known = {(each.file_path, each.start_line) for each in [*defined, *used]}
    text = [hit for hit in found.hits if (hit.file_path, hit.line) not in known]
    tests = [use for use in used if is_test(use.file_path)]
    references = [use for use in used if not is_test(use.file_path)]
    is_cut = {
        "definitions": len(defined) > limit,
        "references": len(references) > limit or len(used) == MAX_LINES,
        "tests": len(tests) > limit or len(used) == MAX_LINES,
        "text": len(text) > limit or found.truncated,
    }
    return Impact(
        name=name,
        definitions=list(defined[:limit]),
        references=list[Use](references[:limit]),
        tests=list[Use](tests[:limit]),
        text=list[GrepHit](text[:limit]),
        truncated=[part for part in _PARTS if is_cut[part]],
        coverage=found.coverage,
        notes=[*reads.notes, *found.notes],
    )


def is_test(path: str) -> bool:
    """Whether a file tests others, by its path."""
    return _TEST.search(path) is not None

"""Rows of definitions and references: every text arrives as it was, and the rows go with their file."""

from __future__ import annotations

import random

from api.search.code import calls
from schemas.content.document import CodeDefinition, CodeReference
from tests.integration.steps.site import Site
from worker.state.search import code_texts, symbols

#: What COPY's text format treats specially, and what it does not.
SIGNS = ["\\", "\t", "\n", "\r", "\\N", "\\.", "'", '"', "\x01", "é", "名", "\U0001f600", "a", " ", "/"]
#: One byte more than the longest name, and the longest one.
TOO_LONG, LONGEST = "x" * 999 + "é", "x" * 998 + "é"


def texts(chance: random.Random) -> str:
    return "".join(chance.choices(SIGNS, k=chance.randrange(1, 9)))


def kept(name: str, scope: tuple[str, ...]) -> bool:
    return TOO_LONG not in {name, *scope}


def test_names_of_any_characters_arrive_unchanged(site: Site) -> None:
    chance = random.Random(7)
    ((file,), *_) = site.do("SELECT id FROM search_index_file WHERE index_id = %s", site.index.id)
    names = [*(texts(chance) for _ in range(40)), TOO_LONG, LONGEST]
    scopes: list[tuple[str, ...]] = [(), (LONGEST,), (TOO_LONG,), *((texts(chance), texts(chance)) for _ in range(9))]
    defined = [CodeDefinition(name, "class", chance.choice(scopes), 0, 0, 1, 3, 4, texts(chance)) for name in names]
    # some names once, and some several times
    uses = enumerate([*names, *chance.choices(names, k=40)])
    used = [CodeReference(name, chance.choice(["call", "base"]), chance.choice(scopes), line) for line, name in uses]

    with site.pool.connection() as connection:
        symbols.replace(connection, site.index.id, files=[file], file_symbols=[(file, defined, used)])

    rows = site.do("SELECT name, scope, signature, number FROM symbol WHERE file_id = %s ORDER BY number", file)
    fitting = [(d.name, "/".join(d.scope), d.signature) for d in defined if kept(d.name, d.scope)]
    assert rows == [(*row, number) for number, row in enumerate(fitting)]
    rows = site.do("SELECT name, kind, scope, line FROM symbol_reference WHERE file_id = %s ORDER BY number", file)
    assert rows == [(r.name, r.kind, "/".join(r.scope), r.line) for r in used if kept(r.name, r.scope)]
    ((numbers,),) = site.do("SELECT array_agg(number ORDER BY number) FROM symbol_reference WHERE file_id = %s", file)
    assert numbers == list(range(len(rows)))


def test_a_deleted_file_takes_its_symbols_along(site: Site) -> None:
    (gone,), (stays,), *_ = site.do("SELECT id FROM search_index_file WHERE index_id = %s", site.index.id)
    rows = [CodeDefinition("f", "function", (), 0, 0, 1, 1, 1, "")], [CodeReference("g", "call", (), 1)]
    with site.pool.connection() as connection:
        both = [(file, *rows) for file in (gone, stays)]
        symbols.replace(connection, site.index.id, files=[gone, stays], file_symbols=both)

    site.do("DELETE FROM search_index_file WHERE id = %s", gone)

    for table in ("symbol", "symbol_reference"):
        assert site.do(f"SELECT file_id FROM {table} WHERE index_id = %s", site.index.id) == [(stays,)]


def defined(name: str, kind: str, scope: tuple[str, ...], first: int, last: int) -> CodeDefinition:
    return CodeDefinition(name, kind, scope, 0, 0, 1, first, last, "")


def test_a_call_is_the_innermost_definitions_of_those_with_its_path(site: Site) -> None:
    ((file,), *_) = site.do("SELECT id FROM search_index_file WHERE index_id = %s", site.index.id)
    # a function that is defined anew within itself, and its twin further down
    both = [
        defined("f", "function", (), 1, 20),
        defined("f", "function", (), 5, 10),
        defined("f", "function", (), 30, 40),
    ]
    used = [CodeReference("called", "call", ("f",), line) for line in (3, 7, 35)]
    with site.pool.connection() as connection:
        symbols.replace(connection, site.index.id, files=[file], file_symbols=[(file, both, used)])
    found = calls.callers(site.pool, site.index.id, "called", (), 1)
    lines = [(call.line, call.start_line) for call in found.items]
    assert (lines, found.is_cut) == ([(3, 1), (7, 5), (35, 30)], False)


def test_a_file_that_defines_a_name_means_its_own_unless_that_is_a_method(site: Site) -> None:
    (one,), (other,), *_ = site.do("SELECT id FROM search_index_file WHERE index_id = %s ORDER BY path", site.index.id)
    caller, method = defined("g", "function", (), 1, 9), defined("run", "method", ("A",), 20, 29)
    function, call = defined("run", "function", (), 10, 19), CodeReference("run", "call", ("g",), 5)
    for own, expected in (
        ([function], [(1, one, 10)]),
        ([function, method], [(1, one, 10)]),
        ([method], [(2, one, 20), (2, other, 10)]),
        ([], [(1, other, 10)]),
    ):
        with site.pool.connection() as connection:
            rows = [(one, [caller, *own], [call]), (other, [function], [])]
            symbols.replace(connection, site.index.id, files=[one, other], file_symbols=rows)
        start = code_texts.named(site.pool, site.index.id, "g", 1)
        found = calls.callees(site.pool, site.index.id, start, 1).items
        assert [(each.definitions, each.file_id, each.start_line) for each in found] == expected

"""Rows of definitions and references: every text arrives as it was, and the rows go with their file."""

from __future__ import annotations

import random

from schemas.content.document import CodeDefinition, CodeReference
from tests.integration.steps.site import Site
from worker.state.search import symbols

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


#: What a worker of the previous release runs when it finishes files.
PREVIOUS_COPY = "COPY symbol_reference (file_id, number, index_id, name, kind, scope, line) FROM STDIN"
PREVIOUS_CLEAR = """
    WITH gone AS (DELETE FROM symbol WHERE file_id = ANY (%(files)s))
    DELETE FROM symbol_reference WHERE file_id = ANY (%(files)s)
"""


def test_a_worker_of_the_previous_release_replaces_references(site: Site) -> None:
    ((file,), (other,), *_) = site.do("SELECT id FROM search_index_file WHERE index_id = %s", site.index.id)
    uses = [("run", "call", "Outer/go", 3), ("os", "import", "", 1), ("run", "call", 'a"b\\c', 9), ("f", "base", "", 4)]
    rows = "SELECT number, name, kind, scope, line FROM symbol_reference WHERE file_id = %s ORDER BY number"
    with site.pool.connection() as connection:
        kept = [CodeReference("run", "call", (), 2)]
        symbols.replace(connection, site.index.id, files=[other], file_symbols=[(other, [], kept)])
    for lines in (uses, uses[1:]):
        with site.pool.connection() as connection:
            connection.execute(PREVIOUS_CLEAR, {"files": [file]})
            with connection.cursor().copy(PREVIOUS_COPY) as copy:
                for number, (name, kind, scope, line) in enumerate(lines):
                    copy.write_row((file, number, site.index.id, name, kind, scope, line))
        assert site.do(rows, file) == [(number, *use) for number, use in enumerate(lines)]
    assert site.do(rows, other) == [(0, "run", "call", "", 2)]

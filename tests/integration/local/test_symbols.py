"""Definitions and uses in code: found after indexing, updated by an edit, removed with their file."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from schemas.content.document import CodeDefinition
from tests.service import TOOLS, Service, checked
from worker.state.pool import open_pool
from worker.state.search import symbols as symbols_of

#: Older than the age at which stamps are trusted.
LONG_AGO = 1_600_000_000

SHAPES = """
class Shape(Base):
    def area(self):
        return compute(self.size)


def draw(shape):
    canvas.paint(shape.area())
"""
PAINT = """
from shapes import Shape

def draw_all(shapes):
    for shape in shapes:
        draw(shape)
"""

CALLS = {
    "store.py": """
class Store:
    def run(self):
        return load(self)

def load(store):
    return parse(read_bytes(store))

def parse(data):
    return _checked(data)

def _checked(data):
    return data
""",
    "jobs.py": """
from store import load

class Job:
    def run(self):
        return _checked(load(self))

def _checked(data):
    return data or again(data)

def again(data):
    return parse(_checked(data))

def main():
    Job().run()

main()
""",
    "gauge.py": """
class Gauge:
    @property
    def level(self):
        return clamped(self._level)

    @level.setter
    def level(self, value):
        log(value)
        self._level = clamped(clamped(value))
""",
    "many.py": "".join(f"def many_{n}():\n    popular()\n" for n in range(510)),
}


@pytest.fixture(scope="module")
def calls(running: Service, root: Path) -> str:
    """A tool over code with ambiguous names and circular calls."""
    made = root / "calls"
    made.mkdir()
    for name, text in CALLS.items():
        write(made, name, text)
    tool = running.local_tool(made)
    running.wait(tool)
    return tool


@pytest.fixture(scope="module")
def folder(root: Path) -> Path:
    made = root / "code"
    made.mkdir()
    write(made, "shapes.py", SHAPES)
    write(made, "paint.py", PAINT)
    write(made, "notes.md", "# Shape\n\nclass Shape is described here.\n")
    return made


@pytest.fixture(scope="module")
def tool(running: Service, folder: Path) -> str:
    made = running.local_tool(folder)
    running.wait(made)
    return made


def write(folder: Path, name: str, text: str, later: int = 0) -> None:
    (folder / name).write_text(text)
    os.utime(folder / name, (LONG_AGO + later, LONG_AGO + later))


def symbols(running: Service, tool: str, **params: Any) -> list[str]:
    items = running.get(f"{TOOLS}/{tool}/symbols", **params)["items"]
    return [f"{s['kind']} {'/'.join(filter(None, (s['scope'], s['name'])))} {s['file_path']}" for s in items]


def uses(running: Service, tool: str, **params: Any) -> list[str]:
    items = running.get(f"{TOOLS}/{tool}/references", **params)["items"]
    return sorted(f"{r['kind']} {r['name']} {r['file_path']}:{r['start_line']} in {r['scope']}" for r in items)


def shown(running: Service, tool: str, direction: str, **params: Any) -> list[str]:
    """Depth, the name through which it was reached, and the file if the name has one."""
    items = running.get(f"{TOOLS}/{tool}/symbols/{direction}", **params)["items"]
    paths = ["/".join(filter(None, (i["scope"], i["name"]))) for i in items]
    return [
        f"{i['depth']} {i['via']} {path or '-'} {i['file_path'] or i['definitions']}"
        for i, path in zip(items, paths, strict=True)
    ]


def reindex(running: Service, tool: str) -> dict[str, Any]:
    running.post(f"{TOOLS}/{tool}/reindex", {})
    return running.wait(tool)


def stored(running: Service, tool: str) -> list[tuple[Any, ...]]:
    """Every row, with the transaction that wrote it."""
    query = (
        "SELECT f.path, s.name, s.xmin::text FROM symbol s JOIN search_index_file f ON f.id = s.file_id"
        " JOIN search_tool t ON t.index_id = s.index_id WHERE t.id = %s ORDER BY 1, 2"
    )
    return running.rows(query, tool)


def test_definitions_are_found(running: Service, tool: str) -> None:
    assert symbols(running, tool) == [
        "class Shape shapes.py",
        "method Shape/area shapes.py",
        "function draw shapes.py",
        "function draw_all paint.py",
    ]
    assert symbols(running, tool, name="draw") == ["function draw shapes.py"]
    assert symbols(running, tool, prefix="draw") == ["function draw shapes.py", "function draw_all paint.py"]
    assert symbols(running, tool, kind="class") == ["class Shape shapes.py"]
    assert symbols(running, tool, name="nothing") == []
    (shape,) = running.get(f"{TOOLS}/{tool}/symbols", name="Shape")["items"]
    assert (shape["start_line"], shape["end_line"], shape["signature"]) == (2, 4, "class Shape(Base)")


def test_uses_are_found_from_both_ends(running: Service, tool: str) -> None:
    assert uses(running, tool, name="draw") == ["call draw paint.py:6 in draw_all"]
    assert uses(running, tool, name="Shape", kind="import") == ["import Shape paint.py:2 in None"]
    assert uses(running, tool, name="Base") == ["base Base shapes.py:2 in Shape"]
    (draw,) = running.get(f"{TOOLS}/{tool}/symbols", name="draw")["items"]
    found = uses(running, tool, file_id=draw["file_id"], scope="draw")
    assert found == ["call area shapes.py:8 in draw", "call paint shapes.py:8 in draw"]
    checked(running.client.get(f"{TOOLS}/{tool}/references"), 422)


READS = {
    "limits.py": """
MOST = 7
PER_USER: int = MOST

def check(count, MOST=3):
    # MOST is not read here
    if count > MOST:
        raise ValueError(f"at most {MOST}, not 'MOST'")
    return "MOST"

class Quota:
    left = MOST
    def spend(self):
        self.left -= 1
        return self.left
""",
    "use.ts": """
import { MOST } from './limits'
// MOST in a comment
export const shown = `of ${MOST} at MOST`
const text = 'MOST'
const other = { most: MOST, MOSTLY: 1 }
""",
    "use.kt": "val x = MOST\n",
}


@pytest.fixture(scope="module")
def reads(running: Service, root: Path) -> str:
    made = root / "reads"
    made.mkdir()
    for name, text in READS.items():
        write(made, name, text)
    tool = running.local_tool(made)
    running.wait(tool)
    return tool


def test_references_include_reads_and_assignments(running: Service, reads: str) -> None:
    assert uses(running, reads, name="MOST") == [
        "import MOST use.ts:2 in None",
        "read MOST limits.py:12 in Quota",
        "read MOST limits.py:3 in PER_USER",
        "read MOST limits.py:7 in check",
        "read MOST limits.py:8 in check",
        "read MOST use.ts:4 in shown",
        "read MOST use.ts:6 in other",
    ]
    assert uses(running, reads, name="MOST", kind="import") == ["import MOST use.ts:2 in None"]
    assert uses(running, reads, name="Quota.left") == [
        "read left limits.py:15 in Quota/spend",
        "write left limits.py:12 in Quota",
        "write left limits.py:14 in Quota/spend",
    ]
    assert uses(running, reads, name="MOST", kind="write") == []
    (note,) = running.get(f"{TOOLS}/{reads}/references", name="MOST")["notes"]
    assert (note["code"], "kotlin (1)" in note["detail"]) == ("no_uses", True)
    found = running.pages(f"{TOOLS}/{reads}/references", limit=1, name="MOST")
    assert found == running.get(f"{TOOLS}/{reads}/references", name="MOST")["items"]
    assert [(use["file_path"], use["start_line"]) for use in found] == sorted(
        (use["file_path"], use["start_line"]) for use in found
    )


def test_an_outline_is_of_a_file_a_folder_or_all(running: Service, calls: str) -> None:
    asked: dict[str, Any] = {"path": "gauge.py", "limit": 2}
    first = running.client.get(f"{TOOLS}/{calls}/outline", params=asked).json()
    second = running.client.get(f"{TOOLS}/{calls}/outline", params={**asked, "cursor": first["next_cursor"]}).json()
    assert second["next_cursor"] is None
    items = first["items"] + second["items"]
    assert [f"{s['file_path']}:{s['start_line']}-{s['end_line']} {s['name']}" for s in items] == [
        "gauge.py:2-10 Gauge",
        "gauge.py:3-5 level",
        "gauge.py:7-10 level",
    ]
    everything = running.pages(f"{TOOLS}/{calls}/outline", limit=1000)
    assert {s["file_path"] for s in everything} == set(CALLS)
    assert len(everything) > 500
    refused = running.client.get(f"{TOOLS}/{calls}/outline", params={"path": "gauge"})
    assert checked(refused, 422)["code"] == "no_such_files"


def test_an_impact_has_definitions_uses_tests_and_text(running: Service, root: Path) -> None:
    made = root / "impact"
    (made / "tests").mkdir(parents=True)
    write(made, "store.py", "def renew(lease):\n    return lease\n")
    write(made, "job.py", "from store import renew\n\ndef run(lease):\n    # renew it\n    renew(lease)\n")
    write(made, "tests/test_store.py", "from store import renew\n\ndef test_renew():\n    assert renew(1)\n")
    write(made, "notes.md", "Leases renew themselves.\n")
    made_tool = running.local_tool(made)
    running.wait(made_tool)
    found = running.get(f"{TOOLS}/{made_tool}/impact", name="renew")
    assert [(s["file_path"], s["start_line"]) for s in found["definitions"]] == [("store.py", 1)]
    assert [(u["file_path"], u["start_line"], u["kind"]) for u in found["references"]] == [
        ("job.py", 1, "import"),
        ("job.py", 5, "call"),
    ]
    assert [(u["file_path"], u["start_line"]) for u in found["tests"]] == [
        ("tests/test_store.py", 1),
        ("tests/test_store.py", 4),
    ]
    assert [(h["file_path"], h["line"]) for h in found["text"]] == [("job.py", 4), ("notes.md", 1)]
    assert (found["truncated"], found["coverage"]["indexed_files"]) == ([], 4)
    cut = running.get(f"{TOOLS}/{made_tool}/impact", name="renew", limit=1)
    assert cut["truncated"] == ["references", "tests", "text"]
    assert all(len(cut[part]) == 1 for part in ("definitions", "references", "tests", "text"))


def test_callers_to_a_depth(running: Service, calls: str) -> None:
    assert shown(running, calls, "callers", name="load") == ["1 load Job/run jobs.py", "1 load Store/run store.py"]
    assert shown(running, calls, "callers", name="Job", depth=3) == ["1 Job main jobs.py", "2 main - jobs.py"]
    assert shown(running, calls, "callers", name="nothing", depth=5) == []


def test_definitions_of_one_path_are_callers_each(running: Service, calls: str) -> None:
    items = running.get(f"{TOOLS}/{calls}/symbols/callers", name="clamped")["items"]
    found = [(i["scope"], i["name"], i["start_line"], i["end_line"], i["line"]) for i in items]
    assert found == [("Gauge", "level", 3, 5, 5), ("Gauge", "level", 7, 10, 10)]


def test_callers_of_an_ambiguous_name_are_marked_and_followed_only_where_it_is_clear(
    running: Service, calls: str
) -> None:
    found = running.get(f"{TOOLS}/{calls}/symbols/callers", name="parse", depth=2)
    assert (found["definitions"], found["ambiguous"], found["truncated"]) == (1, False, False)
    assert [(i["name"], i["ambiguous"], i["definitions"]) for i in found["items"]] == [
        ("again", False, 1),
        ("load", False, 1),
        ("_checked", True, 2),
        ("run", True, 2),
        ("run", True, 2),
    ]
    # it is unknown who calls `run`; calls of a `_checked` in the same file are known
    assert shown(running, calls, "callers", name="parse", depth=5)[5:] == []
    assert shown(running, calls, "callers", name="run") == ["1 run main jobs.py"]
    found = running.get(f"{TOOLS}/{calls}/symbols/callers", name="run")
    assert (found["definitions"], found["ambiguous"]) == (2, True)


def test_callees_to_a_depth(running: Service, calls: str) -> None:
    assert shown(running, calls, "callees", name="load", depth=3) == [
        "1 load parse store.py",
        "1 load read_bytes 0",
        "2 parse _checked store.py",
    ]
    # around a circle, back to the start
    assert shown(running, calls, "callees", name="again", depth=5) == [
        "1 again _checked jobs.py",
        "1 again parse store.py",
        "2 _checked again jobs.py",
        "2 parse _checked store.py",
    ]
    (run,) = [
        i for i in running.get(f"{TOOLS}/{calls}/symbols/callees", name="main", depth=5)["items"] if i["ambiguous"]
    ]
    assert (run["name"], run["definitions"], run["kind"], run["file_path"], run["line"]) == ("run", 2, None, None, 15)


@pytest.mark.parametrize("name", ["Job.run", "Job::run", "Job/run"])
def test_one_of_several_definitions_is_chosen_by_its_scope(running: Service, calls: str, name: str) -> None:
    called = ["1 run _checked jobs.py", "1 run load store.py"]
    assert shown(running, calls, "callees", name=name) == called
    assert shown(running, calls, "callees", name="run", scope="Job") == called
    assert running.get(f"{TOOLS}/{calls}/symbols/callees", name=name)["definitions"] == 1
    assert shown(running, calls, "callees", name="Nobody.run") == []


def test_calls_of_a_name_that_others_have_may_mean_them(running: Service, calls: str) -> None:
    for asked, ambiguous in (({"name": "Job.run"}, True), ({"name": "load"}, False), ({"name": "nothing"}, False)):
        found = running.get(f"{TOOLS}/{calls}/symbols/callers", **asked)
        assert (asked, found["ambiguous"]) == (asked, ambiguous)
    of_file = {s["file_path"]: s["file_id"] for s in running.get(f"{TOOLS}/{calls}/symbols", name="_checked")["items"]}
    own = running.get(f"{TOOLS}/{calls}/symbols/callers", name="_checked", file_id=of_file["store.py"])
    assert (own["definitions"], own["ambiguous"]) == (1, False), "calls in the file of the other mean that"
    assert not running.get(f"{TOOLS}/{calls}/symbols/callees", name="Job.run")["ambiguous"]


@pytest.mark.parametrize("name", ["Shape.area", "Shape::area", "Shape/area"])
def test_uses_of_a_qualified_name_are_those_of_the_name(running: Service, tool: str, name: str) -> None:
    assert uses(running, tool, name=name) == uses(running, tool, name="area") != []


def test_one_of_several_definitions_is_chosen_by_its_file(running: Service, calls: str) -> None:
    of_file = {s["file_path"]: s["file_id"] for s in running.get(f"{TOOLS}/{calls}/symbols", name="_checked")["items"]}
    found = [
        shown(running, calls, "callers", name="_checked", file_id=of_file[path]) for path in ("store.py", "jobs.py")
    ]
    assert found == [["1 _checked parse store.py"], ["1 _checked Job/run jobs.py", "1 _checked again jobs.py"]]


def test_calls_are_as_many_as_can_be_read(running: Service, calls: str) -> None:
    found = running.get(f"{TOOLS}/{calls}/symbols/callers", name="popular", depth=2)
    assert (len(found["items"]), found["truncated"], found["definitions"]) == (500, True, 0)
    assert [item["start_line"] for item in found["items"]] == list(range(1, 1000, 2))


@pytest.mark.parametrize("params", [{}, {"name": "a", "depth": 6}, {"name": "a", "depth": 0}, {"name": "a\0b"}])
def test_a_bad_question_is_refused(running: Service, calls: str, params: dict[str, Any]) -> None:
    checked(running.client.get(f"{TOOLS}/{calls}/symbols/callers", params=params), 422)


def test_definitions_are_found_by_their_names(running: Service, calls: str) -> None:
    (index,) = running.rows("SELECT index_id FROM search_tool WHERE id = %s", calls)[0]
    with closing(open_pool(running.database_url)) as pool:

        def named(*names: str) -> list[tuple[str, int]]:
            return [(name, start) for _, start, _, name, _ in symbols_of.find_named(pool, index, names)]

        assert named("load", "JOB") == [("load", 6), ("Job", 4)]
        assert sorted(named("run")) == [("run", 3), ("run", 5)]
        assert named("Job.run") == [("run", 5)]
        assert len(named("nowhere.run", "_CHECKED", "nothing")) == 4
        assert named() == []


def test_each_name_has_its_share_of_the_definitions(running: Service, root: Path) -> None:
    made = root / "shares"
    made.mkdir()
    write(made, "many.py", "".join(f"class C{n}:\n    def run(self):\n        pass\n" for n in range(60)))
    write(made, "uses.js", "const C59 = loaded('./many')\n")
    tool = running.local_tool(made)
    running.wait(tool)
    (index,) = running.rows("SELECT index_id FROM search_tool WHERE id = %s", tool)[0]
    with closing(open_pool(running.database_url)) as pool:
        found = [name for *_, name, _ in symbols_of.find_named(pool, index, ["run", "C59"])]
        # the value of a variable is defined elsewhere
        assert [kind for *_, kind in symbols_of.find_named(pool, index, ["C59"])] == ["class"]
    assert (len(found), found[:3]) == (50, ["run", "C59", "run"])


@pytest.mark.parametrize("others", [symbols_of.MAX_CONSIDERED - 1, symbols_of.MAX_CONSIDERED])
def test_a_qualified_name_is_found_among_any_number_of_its_name(running: Service, root: Path, others: int) -> None:
    made = root / f"namesakes-{others}"
    made.mkdir()
    write(made, "one.py", "class Store:\n    pass\n")
    tool = running.local_tool(made)
    running.wait(tool)
    ((index, file),) = running.rows(
        "SELECT f.index_id, f.id FROM search_index_file f JOIN search_tool t USING (index_id) WHERE t.id = %s", tool
    )
    defined = [
        CodeDefinition("renew", "method", (f"Other{number}",), 0, 0, 1, number + 1, number + 1, "")
        for number in range(others)
    ]
    wanted = CodeDefinition("renew", "method", ("stores", "TokenStore"), 0, 0, 1, 9_000, 9_001, "")
    with closing(open_pool(running.database_url)) as pool:
        with pool.connection() as connection:
            symbols_of.replace(connection, index, files=[file], file_symbols=[(file, [*defined, wanted], [])])
        assert symbols_of.find_named(pool, index, ["TokenStore.renew"]) == [(file, 9_000, 9_001, "renew", "method")]
        assert len(symbols_of.find_named(pool, index, ["renew"])) == 50


def test_pages_of_one_are_the_whole(running: Service, tool: str) -> None:
    found = running.pages(f"{TOOLS}/{tool}/symbols", limit=1)
    assert [item["name"] for item in found] == ["Shape", "area", "draw", "draw_all"]
    (draw,) = running.get(f"{TOOLS}/{tool}/symbols", name="draw")["items"]
    of_file = {"file_id": draw["file_id"]}
    everything = running.get(f"{TOOLS}/{tool}/references", **of_file)["items"]
    assert len(everything) > 2
    assert running.pages(f"{TOOLS}/{tool}/references", limit=1, **of_file) == everything


def test_chunks_carry_symbols_and_are_filtered_by_them(running: Service, tool: str) -> None:
    hits = running.query(tool, "draw all shapes", filters={"symbols": ["draw_all"]})
    assert [(h["file_path"], h["symbol"], h["node_type"], h["language"]) for h in hits] == [
        ("paint.py", "draw_all", "function", "python")
    ]


@pytest.mark.parametrize("name", ["Job.run", "Job::run", "Job/run"])
def test_a_qualified_name_is_that_in_its_scope(running: Service, calls: str, name: str) -> None:
    assert symbols(running, calls, name=name) == ["method Job/run jobs.py"]
    assert symbols(running, calls, name="run") == ["method Job/run jobs.py", "method Store/run store.py"]
    assert symbols(running, calls, name=f"Outer.{name}") == []


@pytest.mark.parametrize(("part", "kind"), [("symbols", "interface"), ("references", "import")])
def test_a_kind_that_is_none_is_refused_with_those_there_are(running: Service, tool: str, part: str, kind: str) -> None:
    refused = running.client.get(f"{TOOLS}/{tool}/{part}", params={"name": "Shape", "kind": "klass"})
    assert kind in checked(refused, 422)["detail"]


def test_definitions_of_a_name_come_by_path_and_line_page_by_page(running: Service, root: Path) -> None:
    made = root / "ordered"
    made.mkdir()
    for n in range(9):
        write(made, f"{n}.py", "class A:\n    def run(self):\n        pass\n\n\ndef run():\n    pass\n")
    tool = running.local_tool(made)
    running.wait(tool)
    for limit in (1, 4, 6):
        found = running.pages(f"{TOOLS}/{tool}/symbols", name="run", limit=limit)
        assert [(item["file_path"], item["start_line"]) for item in found] == [
            (f"{n}.py", line) for n in range(9) for line in (2, 6)
        ]


@pytest.mark.parametrize(
    ("filters", "paths"),
    [
        # the whole class is one chunk, and so are several functions together
        ({"symbols": ["area"]}, {"shapes.py"}),
        ({"symbols": ["draw"]}, {"shapes.py"}),
        ({"symbols": ["area", "draw_all"]}, {"shapes.py", "paint.py"}),
        ({"scope": "Shape"}, {"shapes.py"}),
        ({"scope": "Shape/area"}, {"shapes.py"}),
        ({"scope": "Shape", "symbols": ["area"]}, {"shapes.py"}),
    ],
)
@pytest.mark.parametrize("mode", ["vector", "keyword"])
def test_a_chunk_that_holds_a_definition_passes_its_filters(
    running: Service, tool: str, mode: str, filters: dict[str, Any], paths: set[str]
) -> None:
    hits = running.query(tool, "the area of shapes to draw", mode=mode, filters=filters)
    assert {hit["file_path"] for hit in hits} == paths


def test_a_filter_leaves_the_definition_first(running: Service, root: Path) -> None:
    made = root / "defined"
    made.mkdir()
    write(
        made,
        "small.py",
        "".join(f"def {name}():\n    return {n}\n\n\n" for n, name in enumerate(["one", "two", "three"])),
    )
    for n in range(5):
        write(made, f"use{n}.py", f"class Use{n}:\n    three = three(def_three(three))  # def three\n")
    tool = running.local_tool(made)
    running.wait(tool)
    for filters in ({}, {"languages": ["python"]}, {"path": "*.py"}, {"types": ["py"]}):
        first = running.query(tool, "def three", filters=filters, explain=True)[0]
        assert (first["file_path"], "definition" in first["explain"]) == ("small.py", True)
    others = running.query(tool, "def three", filters={"path": "use*"}, explain=True)
    assert {hit["file_path"] for hit in others} == {f"use{n}.py" for n in range(5)}


def test_an_edit_renews_its_file_only_and_a_removal_takes_its_symbols(
    running: Service, tool: str, folder: Path
) -> None:
    before = stored(running, tool)
    assert reindex(running, tool)["status"] == "ready"
    assert stored(running, tool) == before
    write(folder, "paint.py", PAINT.replace("draw_all", "draw_many"), later=60)
    reindex(running, tool)
    assert symbols(running, tool, prefix="draw") == ["function draw shapes.py", "function draw_many paint.py"]
    assert uses(running, tool, name="draw") == ["call draw paint.py:6 in draw_many"]
    assert [row for row in stored(running, tool) if row[0] == "shapes.py"] == [r for r in before if r[0] == "shapes.py"]
    (folder / "paint.py").unlink()
    reindex(running, tool)
    assert symbols(running, tool, prefix="draw") == ["function draw shapes.py"]
    assert uses(running, tool, name="Shape") == []
    write(folder, "shapes.py", "", later=90)
    reindex(running, tool)
    assert symbols(running, tool) == []
    query = "SELECT count(*) FROM symbol_reference r JOIN search_tool t USING (index_id) WHERE t.id = %s"
    assert running.rows(query, tool) == [(0,)]

"""Callers, callees, reads, outlines and impacts over a real index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.local.test_symbols import CALLS, index_texts, uses, write
from tests.service import TOOLS, Service, checked


@pytest.fixture(scope="module")
def calls(running: Service, root: Path) -> str:
    """A tool over code with ambiguous names and circular calls."""
    return index_texts(running, root / "callers", CALLS)


def shown(running: Service, tool: str, direction: str, **params: Any) -> list[str]:
    """Depth, the name through which it was reached, and the file if the name has one."""
    items = running.get(f"{TOOLS}/{tool}/symbols/{direction}", **params)["items"]
    paths = ["/".join(filter(None, (i["scope"], i["name"]))) for i in items]
    return [
        f"{i['depth']} {i['via']} {path or '-'} {i['file_path'] or i['definitions']}"
        for i, path in zip(items, paths, strict=True)
    ]


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
    return index_texts(running, root / "reads", READS)


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


@pytest.mark.parametrize("way", ["callers", "callees"])
def test_calls_name_languages_whose_calls_are_not_known(running: Service, reads: str, way: str) -> None:
    (note,) = running.get(f"{TOOLS}/{reads}/symbols/{way}", name="MOST")["notes"]
    assert (note["code"], "kotlin (1)" in note["detail"]) == ("no_uses", True)
    assert running.get(f"{TOOLS}/{reads}/symbols/{way}", name="check")["notes"] == []


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


def test_a_name_with_two_definitions_does_not_end_the_walk(running: Service, calls: str) -> None:
    found = running.get(f"{TOOLS}/{calls}/symbols/callers", name="parse", depth=2)
    assert (found["definitions"], found["ambiguous"], found["truncated"]) == (1, False, False)
    assert [(i["name"], i["ambiguous"], i["definitions"]) for i in found["items"]] == [
        ("again", False, 1),
        ("load", False, 1),
        ("_checked", False, 1),
        ("run", False, 1),
        ("run", False, 1),
    ]
    assert {(i["confidence"], i["stopped"]) for i in found["items"]} == {("resolved", None), ("resolved", "depth")}
    assert shown(running, calls, "callers", name="parse", depth=5)[5:] == ["3 run main jobs.py", "4 main - jobs.py"]
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
    assert shown(running, calls, "callees", name="main") == ["1 main Job jobs.py", "1 main Job/run jobs.py"]


@pytest.mark.parametrize("name", ["Job.run", "Job::run", "Job/run"])
def test_one_of_several_definitions_is_chosen_by_its_scope(running: Service, calls: str, name: str) -> None:
    called = ["1 run _checked jobs.py", "1 run load store.py"]
    assert shown(running, calls, "callees", name=name) == called
    assert shown(running, calls, "callees", name="run", scope="Job") == called
    assert running.get(f"{TOOLS}/{calls}/symbols/callees", name=name)["definitions"] == 1
    assert shown(running, calls, "callees", name="Nobody.run") == []


def test_calls_mean_what_the_code_around_them_shows(running: Service, calls: str) -> None:
    for asked, ambiguous in (({"name": "Job.run"}, False), ({"name": "load"}, False), ({"name": "nothing"}, False)):
        found = running.get(f"{TOOLS}/{calls}/symbols/callers", **asked)
        assert (asked, found["ambiguous"]) == (asked, ambiguous)
    of_file = {s["file_path"]: s["file_id"] for s in running.get(f"{TOOLS}/{calls}/symbols", name="_checked")["items"]}
    own = running.get(f"{TOOLS}/{calls}/symbols/callers", name="_checked", file_id=of_file["store.py"])
    assert (own["definitions"], own["ambiguous"]) == (1, False), "calls in the file of the other mean that"
    assert not running.get(f"{TOOLS}/{calls}/symbols/callees", name="Job.run")["ambiguous"]


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


PACKAGE = {
    "mail/__init__.py": "from ._client import *\nfrom ._client import Client as Mailer\n",
    "mail/_base.py": """
class Base:
    def send(self, text):
        return self.encode(text)

    def encode(self, text):
        return text

    def close(self):
        pass
""",
    "mail/_client.py": """
from . import _base
from ._base import Base as Parent

class Client(Parent):
    def send(self, text):
        return super().send(text)

    def post(self, text):
        return self.send(text)

class AsyncClient(_base.Base):
    async def send(self, text):
        return self.encode(text)

    async def post(self, text):
        return await self.send(text)

def make() -> Client:
    return Client()
""",
    "app.py": """
import mail
from mail import AsyncClient, Mailer, make

class App:
    def __init__(self, client: AsyncClient, other):
        self.client = client
        self.mailer = Mailer()
        self.other = other

    def run(self):
        self.mailer.post("a")

    async def run_async(self, client: AsyncClient):
        await client.post("b")

    def guess(self, thing):
        thing.post("c")
        self.other.post("c")

def main():
    c = Mailer()
    c.post("d")
    with mail.Client() as opened:
        opened.post("e")

def made():
    m = make()
    m.post("f")

def shadowed(post):
    post("g")
    "x".post()
""",
    "web/client.ts": """
export class Client {
  send(text: string) { return text }
  post(text: string) { return this.send(text) }
}
export class Quiet extends Client {
  ping() { return this.post('x') }
}
""",
    "web/index.ts": "export { Client as WebClient } from './client'\nexport * from './client'\n",
    "web/use.ts": """
import { WebClient, Quiet } from '.'
import * as all from './client'
export function direct() { const c = new WebClient(); c.post('a') }
export function typed(q: Quiet) { q.post('b') }
export function spaced() { const s = new all.Client(); return s.send('c') }
export function unknown(x: any) { x.post('d') }
""",
}


@pytest.fixture(scope="module")
def package(running: Service, root: Path) -> str:
    return index_texts(running, root / "package", PACKAGE)


def sure(running: Service, tool: str, direction: str, name: str, depth: int = 1) -> dict[str, tuple[str, int]]:
    """How sure each item is, and how many definitions the call may mean."""
    asked: dict[str, Any] = {"name": name, "depth": depth}
    items = running.client.get(f"{TOOLS}/{tool}/symbols/{direction}", params=asked).json()["items"]
    named = {"/".join(filter(None, (i["scope"], i["name"]))): (i["confidence"], i["definitions"]) for i in items}
    assert len(named) == len(items)
    return named


def test_calls_of_python_mean_the_method_of_their_class(running: Service, package: str) -> None:
    resolved = ("resolved", 1)
    assert sure(running, package, "callers", "Client.post") == {
        "App/run": resolved,
        "main": resolved,
        "made": resolved,
        "App/guess": ("by_name", 3),
        # the class of the other language has the name too
        "direct": resolved,
        "Quiet/ping": resolved,
        "typed": resolved,
        "unknown": ("by_name", 3),
    }
    assert sure(running, package, "callers", "AsyncClient.post") == {
        "App/run_async": resolved,
        "App/guess": ("by_name", 3),
        "unknown": ("by_name", 3),
    }
    assert sure(running, package, "callers", "Base.send") == {"Client/send": resolved}
    assert sure(running, package, "callers", "Base.encode") == {"Base/send": resolved, "AsyncClient/send": resolved}
    assert sure(running, package, "callers", "Base.encode", depth=4).keys() >= {"Client/send", "Client/post", "App/run"}


def test_calls_of_typescript_mean_the_method_of_their_class(running: Service, package: str) -> None:
    resolved = ("resolved", 1)
    file = "web/client.ts"
    (client,) = [
        each
        for each in running.get(f"{TOOLS}/{package}/symbols", name="Client.send")["items"]
        if each["file_path"] == file
    ]
    asked = {"name": "Client.send", "file_id": client["file_id"]}
    items = running.get(f"{TOOLS}/{package}/symbols/callers", **asked)["items"]
    assert {(i["name"], i["confidence"]) for i in items} == {("post", "resolved"), ("spaced", "resolved")}
    assert sure(running, package, "callees", "typed") == {"Client/post": resolved}
    assert sure(running, package, "callees", "Quiet.ping") == {"Client/post": resolved}


def test_an_item_says_why_the_walk_stopped_there(running: Service, package: str) -> None:
    def stopped(direction: str, name: str, depth: int) -> dict[str, str | None]:
        found = running.get(f"{TOOLS}/{package}/symbols/{direction}", name=name, depth=depth)
        return {str(i["name"]): i["stopped"] for i in found["items"]}

    assert stopped("callees", "made", 1) == {"make": "depth", "post": "depth"}
    assert stopped("callees", "made", 5)["post"] is None
    assert stopped("callees", "shadowed", 2) == {"post": "outside"}


@pytest.mark.parametrize(("number", "kind"), [(8, "method"), (9, None)])
def test_a_name_that_very_many_have_is_not_followed(
    running: Service, root: Path, number: int, kind: str | None
) -> None:
    made = root / f"many-{number}"
    made.mkdir()
    write(made, "many.py", "".join(f"class C{n}:\n    def go(self):\n        inner()\n" for n in range(number)))
    write(made, "use.py", "def use(x):\n    x.go()\n")
    tool = running.local_tool(made)
    running.wait(tool)
    items = running.get(f"{TOOLS}/{tool}/symbols/callees", name="use", depth=2)["items"]
    ambiguous = [item for item in items if item["name"] == "go"]
    assert {(i["kind"], i["definitions"], i["confidence"]) for i in ambiguous} == {(kind, number, "by_name")}
    assert len(ambiguous) == (number if kind else 1)
    assert {i["stopped"] for i in ambiguous} == ({None} if kind else {"ambiguous"})


RENAMED = {
    "shop/__init__.py": "",
    "shop/json.py": "def dumps(value):\n    return value\n",
    "shop/cart.py": "import json\n\ndef save(cart):\n    return json.dumps(cart)\n",
    "shop/till.py": """
def pay(total):
    return total

def refund(total):
    return total
""",
    "shop/page.py": """
def first():
    from .till import pay as work
    return work(1)

def second():
    from .till import refund as work
    return work(2)
""",
    "web/rules.ts": """
export function has(key: string) { return key }
export const traps = { has() { return has('a') }, get() { return has('b') } }
export namespace inner {
  export function low() { return 1 }
  export function high() { return low() }
}
""",
    "web/page.ts": "import { has as holds } from './rules'\nexport const page = () => holds('c')\n",
}


@pytest.fixture(scope="module")
def renamed(running: Service, root: Path) -> str:
    return index_texts(running, root / "renamed", RENAMED)


def test_callers_by_another_name_are_found(running: Service, renamed: str) -> None:
    resolved = ("resolved", 1)
    assert sure(running, renamed, "callers", "pay") == {"first": resolved}
    assert sure(running, renamed, "callers", "refund") == {"second": resolved}
    assert sure(running, renamed, "callees", "second") == {"refund": resolved}


def test_a_package_is_no_place_where_imports_begin(running: Service, renamed: str) -> None:
    assert sure(running, renamed, "callers", "dumps") == {}, "json is Python's own here"


def test_a_bare_name_means_no_method_of_a_literal_but_names_of_its_namespace(running: Service, renamed: str) -> None:
    resolved = ("resolved", 1)
    listed = running.get(f"{TOOLS}/{renamed}/symbols", name="has")["items"]
    assert [each["scope"] for each in listed] == [None, "traps"]
    assert sure(running, renamed, "callers", "has") == {"traps/has": resolved, "traps/get": resolved, "page": resolved}
    assert sure(running, renamed, "callers", "traps.has") == {}
    assert sure(running, renamed, "callers", "low") == {"inner/high": resolved}

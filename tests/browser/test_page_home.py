"""Home: one search over all folders, what was asked before, and the folders themselves."""

from __future__ import annotations

import json
import re
from pathlib import Path
from signal import SIGCONT, SIGSTOP

import pytest
from playwright.sync_api import Page, Route, expect

from api.indexers.chunks import WORDS_ONLY
from docs.openapi import description
from schemas.content.node import Refused
from schemas.reason import Reason
from tests.browser.checks import dark_violations, overflow, violations
from tests.browser.conftest import NewPage
from tests.service import Service
from worker.parse.limits import too_large

#: Milliseconds within which a busy machine shows what a test waits for.
LONG = 60_000
WIDTHS = (360, 1200, 2000)
CODE = "class Pot:\n" + "".join(f"    filler_{number} = {number}\n" for number in range(12))
CODE += "    def steep(self, leaves):\n        return self.boil(leaves)\n"
PDF = Path(__file__).parents[1] / "data" / "pdf" / "tides.pdf"
#: What no sentence for people has: marks for code, settings, and names of fields.
FOR_PROGRAMS = re.compile(r"`|[A-Z]{3,}_[A-Z]|\b[a-z]+_[a-z_]+\b| /docs|\btools?\b|\bnodes?\b")

expect.set_options(timeout=LONG)


@pytest.fixture(scope="module")
def folders(running: Service, root: Path) -> tuple[str, str]:
    """Two folders that are ready, in a project of their own."""
    texts = {
        "kitchen": {"tea.md": "# Tea\n\n## Green\n\nGreen tea is steeped for two minutes.\n", "pot.py": CODE},
        "harbour": {"tides.md": "# Tides\n\nTea for the harbour master, who watches the tides.\n"},
    }
    ids = []
    for name, files in texts.items():
        (root / name).mkdir()
        for file, text in files.items():
            (root / name / file).write_text(text)
        ids.append(running.local_tool(root / name, project="home"))
    (root / "harbour" / "tides.pdf").write_bytes(PDF.read_bytes())
    for tool in ids:
        running.wait(tool, seconds=LONG / 1000)
    running.post(f"/api/tools/search/{ids[1]}/reindex", {})
    running.wait(ids[1], seconds=LONG / 1000)
    return ids[0], ids[1]


def home(running: Service, new_page: NewPage, route: str = "#/", **options: object) -> Page:
    page = new_page(**options)
    page.add_init_script("sessionStorage.setItem('foldex.project', 'home')")
    page.goto(f"http://127.0.0.1:{running.env['API_PORT']}/{route}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    return page


def test_one_question_asks_all_folders(running: Service, new_page: NewPage, folders: tuple[str, str]) -> None:
    page = home(running, new_page)
    page.keyboard.press("/")
    page.keyboard.type("tea")
    page.keyboard.press("Enter")
    answer = page.get_by_role("region", name="Answer")
    hits = answer.locator(".hit")
    expect(hits.filter(has_text="kitchen").first).to_be_visible()
    expect(hits.filter(has_text="harbour").first).to_be_visible()
    assert page.url.endswith("#/?q=tea")
    page.get_by_role("navigation", name="Folder", exact=True).get_by_role("link", name=re.compile("^harbour")).click()
    expect(hits.filter(has_text="kitchen")).to_have_count(0)
    page.reload()
    expect(hits.filter(has_text="harbour").first).to_be_visible()
    # the rank among all folders is no chance
    expect(hits.locator(".score")).to_have_count(0)
    expect(hits.filter(has_text="kitchen")).to_have_count(0)
    # arrows walk from the question to the hits, and Enter opens one
    page.keyboard.press("Control+k")
    expect(page.get_by_label("Question")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(hits.first.locator(".path")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_label("Question")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Text", exact=True)).to_be_visible()
    page.goto(page.url.partition("#")[0])
    recent = page.get_by_role("navigation", name="Recent questions")
    recent.get_by_role("link", name="tea", exact=True).click()
    expect(hits.first).to_be_visible()
    page.go_back()
    recent.get_by_role("button", name="Forget them").click()
    expect(recent).to_have_count(0)
    assert page.evaluate("localStorage.getItem('foldex.questions')") is None


def test_a_hit_shows_the_lines_that_answer(running: Service, new_page: NewPage, folders: tuple[str, str]) -> None:
    page = home(running, new_page, f"#/tools/{folders[0]}/search?q=the+leaves+steep+of+a")
    hit = page.locator(".hit").filter(has_text="pot.py").filter(has_text="def steep").first
    lines = hit.locator(".row-line")
    expect(lines.filter(has_text="def steep(self, leaves)")).to_have_attribute("data-line", "14")
    assert lines.count() <= 6
    texts = lines.all_inner_texts()
    assert any(not text.startswith(" ") for text in texts)
    # words that say nothing are not marked, nor are parts of words
    assert {text.lower() for text in hit.locator("mark").all_inner_texts()} <= {"leaves", "steep"}
    hit.get_by_role("button", name="Whole text").click()
    assert lines.count() > 6


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("how is the tea of a pot", "The theatre is a pot of tea, tea-time and teapots", ["pot", "tea", "tea"]),
        ("steeped token", "steep steeps steeple token tokens tokenizer", ["steep", "steeps", "token", "tokens"]),
        ("refresh", "refresh_token refreshToken fresh", ["refresh_token", "refreshToken"]),
        ("the of a", "the of a", []),
        ("zu der Tür", "Die Tür zu der Türkei", ["Tür"]),
        ("$^.*[", "a.*[", []),
    ],
)
def test_whole_words_are_marked_and_none_that_says_nothing(
    running: Service, new_page: NewPage, query: str, text: str, found: list[str]
) -> None:
    page = home(running, new_page)
    script = """async ([query, text]) => {
      const base = document.querySelector('script[type=module]').src.replace('main.js', '');
      const { wordsOf } = await import(`${base}views/marks.js`);
      const words = wordsOf(query);
      return words ? [...text.matchAll(words)].map(([word]) => word) : [];
    }"""
    assert page.evaluate(script, [query, text]) == found


def test_a_document_is_cited_by_its_page(running: Service, new_page: NewPage, folders: tuple[str, str]) -> None:
    page = home(running, new_page, "#/?q=tides&type=pdf")
    expect(page.locator(".hit .path").first).to_have_text(re.compile(r"^tides\.pdf page \d+$"))


def test_a_path_is_copied_and_opened_in_an_editor(
    running: Service, new_page: NewPage, root: Path, folders: tuple[str, str]
) -> None:
    page = home(running, new_page, "#/?q=steeped")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    hit = page.locator(".hit").filter(has_text="two minutes").first
    hit.get_by_role("button", name="Copy the path").click()
    expect(hit.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == f"{root}/kitchen/tea.md"
    page.get_by_role("button", name="Show the keys").click()
    page.get_by_label("Open files of this machine in").select_option("vscode")
    page.get_by_role("button", name="Close").click()
    link = hit.get_by_role("link", name="Open in VS Code")
    expect(link).to_have_attribute("href", re.compile(rf"^vscode://file{re.escape(str(root))}/kitchen/tea\.md:\d+$"))


def test_a_cancelled_run_is_continued(running: Service, new_page: NewPage, root: Path) -> None:
    folder = root / "continued"
    folder.mkdir()
    (folder / "a.md").write_text("# A")
    worker = running.processes["worker-all"]
    worker.signal(SIGSTOP)
    try:
        tool = running.local_tool(folder, project="home")
        page = home(running, new_page)
        row = page.get_by_role("listitem").filter(has_text=str(folder))
        row.get_by_role("button", name="Cancel continued").click()
        go_on = row.get_by_role("button", name="Continue continued")
        expect(go_on).to_be_visible()
    finally:
        worker.signal(SIGCONT)
    go_on.click()
    expect(row.get_by_text("ready", exact=True)).to_be_visible()
    assert running.client.delete(f"/api/tools/search/{tool}").is_success


def test_a_slow_pace_is_told_by_the_minute(running: Service, new_page: NewPage, folders: tuple[str, str]) -> None:
    page = new_page()
    counts: dict[str, object] = {"searchable_files": 1, "vector_chunks": 0, "searchable_at": None}

    def slow(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        for status in body["items"]:
            status |= {"status": "indexing", "listing": False, "total_files": 90, "progress": 0.1, **counts}
        route.fulfill(response=answer, json=body)

    page.route("**/statuses*", slow)
    page.clock.install()
    page.add_init_script("sessionStorage.setItem('foldex.project', 'home')")
    page.goto(f"http://127.0.0.1:{running.env['API_PORT']}/")
    row = page.get_by_role("listitem").filter(has_text="kitchen")

    def after(seconds: int, **changed: object) -> None:
        counts.update(changed)
        page.clock.run_for(seconds * 1000)
        expect(row.locator("> .number")).to_have_text(re.compile(rf"^{counts['searchable_files']} files?$"))

    after(0)
    for count in range(2, 6):
        # the look at the beginning of the time may see the new count too
        after(10, searchable_files=count)
    expect(row).to_contain_text(re.compile(r"\b[4567] files a minute"))
    after(10, searchable_files=45)
    expect(row).to_contain_text(re.compile(r"\b[234](\.\d)? files a second"))
    # nothing of it is left once nothing happens
    for _ in range(14):
        after(10)
    expect(row).not_to_contain_text("files a")
    after(10, searchable_files=90, searchable_at="2026-11-30T12:00:00Z")
    expect(row).not_to_contain_text("files a")
    after(10, vector_chunks=3)
    after(10, vector_chunks=4)
    expect(row).to_contain_text(re.compile(r"\b[12] chunks? a minute"))


def details_by_code() -> dict[str, str]:
    """A sentence of the service for each error that a call states."""
    calls = [call for methods in description()["paths"].values() for call in methods.values()]
    contents = [
        content
        for call in calls
        for answer in call["responses"].values()
        for content in answer.get("content", {}).values()
    ]
    return {
        code: each["value"]["detail"]
        for content in contents
        for code, each in content.get("examples", {}).items()
        if "detail" in each["value"]
    }


def test_the_page_has_its_own_words_for_errors(running: Service, new_page: NewPage) -> None:
    page = home(running, new_page)
    problems = [{"code": code, "detail": detail} for code, detail in details_by_code().items()]
    assert len(problems) > 40
    script = """async (problems) => {
      const base = document.querySelector('script[type=module]').src.replace('main.js', '');
      const { sentenceOf } = await import(`${base}messages.js`);
      return problems.map((problem) => [problem.code, sentenceOf(problem)]);
    }"""
    said = dict(page.evaluate(script, problems))
    # what a program asked for wrongly is named as it was sent
    said.pop("invalid_request")
    assert {code: text for code, text in said.items() if FOR_PROGRAMS.search(text)} == {}


def test_outcomes_of_files_are_told_in_words_for_people(
    running: Service, new_page: NewPage, folders: tuple[str, str]
) -> None:
    page = home(running, new_page)
    script = """async ([reasons, refusals, messages]) => {
      const base = document.querySelector('script[type=module]').src.replace('main.js', '');
      const { plain, refusalOf, remedyOf } = await import(`${base}messages.js`);
      return [...reasons.map(remedyOf), ...refusals.map(refusalOf), ...messages.map(plain)];
    }"""
    reasons = [{"reason": str(reason), "remedy": reason.remedy} for reason in Reason]
    refusals = [{"reason": str(refused), "message": refused.remedy} for refused in Refused]
    messages = [
        too_large("Reading the file takes longer than PARSE_SECONDS (60 s)").message,
        "Text was sought in 4 of 9 pictures; raise OCR_PICTURES or PARSE_SECONDS for more.",
    ]
    said = page.evaluate(script, [reasons, refusals, messages])
    assert len(said) > 28
    assert [text for text in said if FOR_PROGRAMS.search(text)] == []
    assert said[-1] == "Text was sought in 4 of 9 pictures; raise the installation's setting for more."
    # names of files are no settings
    named = "'READ_ME.md' and docs/READ_ME are empty."
    assert page.evaluate(script, [[], [], [named]]) == [named]


def test_facets_narrow_the_hits_of_one_folder(running: Service, new_page: NewPage, folders: tuple[str, str]) -> None:
    page = home(running, new_page, f"#/tools/{folders[1]}/search?q=tides")
    hits = page.get_by_role("region", name="Answer").locator("li.hit")
    types = page.get_by_role("navigation", name="Type", exact=True)
    expect(types.get_by_role("link")).to_have_count(2)
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/query") else None)
    types.get_by_role("link", name=re.compile("^pdf")).click()
    expect(hits.filter(has_text="tides.md")).to_have_count(0)
    expect(hits.filter(has_text="tides.pdf").first).to_be_visible()
    assert "type=pdf" in page.url
    assert asked == []
    page.go_back()
    expect(hits.filter(has_text="tides.md").first).to_be_visible()


def test_facets_stand_beside_the_hits_where_there_is_room(
    running: Service, new_page: NewPage, folders: tuple[str, str]
) -> None:
    page = home(running, new_page, "#/?q=tea")
    narrowing = page.get_by_role("navigation", name="Folder", exact=True)
    for width, is_beside in zip(WIDTHS, (False, True, True), strict=True):
        page.set_viewport_size({"width": width, "height": 900})
        box, hit = narrowing.bounding_box(), page.locator(".hit").first.bounding_box()
        assert box is not None
        assert hit is not None
        assert (box["x"] + box["width"] <= hit["x"]) is is_beside, width
        assert (box["y"] + box["height"] <= hit["y"]) is not is_beside, width


def test_a_wait_and_a_place_are_told_without_settings_and_ids(
    running: Service, new_page: NewPage, folders: tuple[str, str]
) -> None:
    page = home(running, new_page)
    script = """async ([warnings, tools]) => {
      const base = document.querySelector('script[type=module]').src.replace('main.js', '');
      const { warningOf, placeOf } = await import(`${base}messages.js`);
      return [...warnings.map(warningOf), ...tools.map(placeOf)];
    }"""
    warnings = [
        "Waiting for another worker: bulk@host has another LOCAL_SOURCE_ROOTS, and failed: '/a' is outside it.",
        "The provider answers `429`; it is asked again in 20 s.",
        WORDS_ONLY.format(3),
    ]
    tools = [
        {"place": "node 4b28a684-3e09-4fd6-8f68-36d23b47643c", "source": {"kind": "nodes"}},
        {"place": "/srv/docs", "source": {"kind": "local"}},
    ]
    assert page.evaluate(script, [warnings, tools]) == [
        "Waiting for another worker; “Workers” says why.",
        "The provider answers 429; it is asked again in 20 s.",
        "3 chunks are found by their words only; update the folder to embed them too.",
        "stored files",
        "/srv/docs",
    ]


def test_a_failed_run_is_told_in_words_for_people(
    running: Service, new_page: NewPage, folders: tuple[str, str]
) -> None:
    page = new_page(viewport={"width": 1000, "height": 900})
    wrong = {
        "error": "'/srv' is not below one of `LOCAL_SOURCE_ROOTS`; choose one that is.",
        "error_code": "source_refused",
    }

    def failed(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        body["items"][0] |= wrong | {"status": "error", "tokens": 1_287_818}
        route.fulfill(response=answer, json=body)

    page.route("**/tasks?*", failed)
    page.goto(f"http://127.0.0.1:{running.env['API_PORT']}/#/tools/{folders[0]}")
    runs = page.get_by_role("region", name="Table of runs")
    expect(runs).to_contain_text("Foldex may not read this place")
    assert not FOR_PROGRAMS.search(runs.inner_text())
    # no number breaks within its digits
    number = runs.get_by_role("cell", name="1,287,818")
    assert number.evaluate("cell => getComputedStyle(cell).overflowWrap") == "break-word"


def test_home_is_accessible_at_every_width(running: Service, new_page: NewPage, folders: tuple[str, str]) -> None:
    page = home(running, new_page, reduced_motion="reduce")
    for route in ("#/", "#/?q=tea", "#/?q=zeppelin&folder=none"):
        page.evaluate("to => { location.hash = to; }", route)
        expect(page.get_by_text("Searching …")).to_have_count(0)
        assert violations(page) == [], route
        assert dark_violations(page) == [], route
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert overflow(page) == 0, (route, width)


@pytest.mark.parametrize(("tools", "calls", "left"), [(1, 1, 0), (16, 1, 0), (17, 2, 0), (96, 6, 0), (97, 6, 1)])
def test_many_folders_are_searched_in_few_calls(
    running: Service, new_page: NewPage, tools: int, calls: int, left: int
) -> None:
    page = home(running, new_page)
    script = """async (count) => {
      const base = document.querySelector('script[type=module]').src.replace('main.js', '');
      const { callsOf } = await import(`${base}views/across.js`);
      return callsOf(Array.from({ length: count }, (_, index) => ({ project_id: 'p', tool_id: `${index}` })));
    }"""
    made = page.evaluate(script, tools)
    assert len(made) == calls
    assert sum(len(each["tool_ids"]) for each in made) == tools - left


def test_what_was_not_searched_leads_to_the_reasons(running: Service, new_page: NewPage, root: Path) -> None:
    for name in ("gaps", "whole"):
        (root / name).mkdir()
        (root / name / "tea.md").write_text("Green tea is steeped for two minutes.\n")
    (root / "gaps" / "empty.md").write_text("")
    for name in ("gaps", "whole"):
        running.wait(running.local_tool(root / name, project="gaps"), seconds=LONG / 1000)
    page = new_page()
    page.add_init_script("sessionStorage.setItem('foldex.project', 'gaps')")
    page.goto(f"http://127.0.0.1:{running.env['API_PORT']}/#/?q=tea")
    note = page.get_by_role("note")
    expect(note).to_contain_text("2 of 3 files searched")
    expect(note.get_by_role("link")).to_have_count(1)
    note.get_by_role("link", name="gaps").click()
    expect(page.get_by_text("empty.md")).to_be_visible()


def test_answers_are_merged_by_rank_where_scores_cannot_be_compared(
    running: Service, new_page: NewPage, folders: tuple[str, str]
) -> None:
    page = home(running, new_page)

    def answer(route: Route) -> None:
        asked = json.loads(route.request.post_data or "")["tool_ids"][0]
        scores = (0.9, 0.8, 0.7) if asked == "t0" else (0.2, 0.1)
        hits = [{"chunk_id": f"{asked} {rank}", "score": score} for rank, score in enumerate(scores)]
        route.fulfill(json={"results": hits, "notes": [], "coverage": {}})

    page.route("**/api/search", answer)
    script = """async () => {
      const base = document.querySelector('script[type=module]').src.replace('main.js', '');
      const { answerOf } = await import(`${base}views/across.js`);
      const calls = ['t0', 't1'].map((id) => ({ project_id: 'p', tool_ids: [id] }));
      return (await answerOf('q', calls)).results.map(({ chunk_id }) => chunk_id);
    }"""
    assert page.evaluate(script) == ["t0 0", "t1 0", "t0 1", "t1 1", "t0 2"]


def test_the_page_of_a_hit_is_shown_with_its_passage(
    running: Service, new_page: NewPage, folders: tuple[str, str]
) -> None:
    page = home(running, new_page, "#/?q=blue+book+readings+by+telephone")
    hit = page.locator("li.hit").filter(has_text="tides.pdf").first
    hit.get_by_role("button", name="Show page 1").click()
    region = hit.get_by_role("region", name="Page 1 of tides.pdf, with the passage marked")
    expect(region.locator("rect.passage").first).to_be_visible()
    dark = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(v => v < 90)"
    page.wait_for_function(f"() => [...document.querySelectorAll('.paper canvas')].some({dark})")
    assert violations(page) == []
    assert dark_violations(page) == []
    assert overflow(page) == 0
    hit.get_by_role("button", name="Hide the page").click()
    expect(region).to_have_count(0)

"""The page's files, texts, searches, symbols and grep, over a real service."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from urllib.parse import quote, urlencode
from uuid import UUID

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from api.stack.processes import start, stop
from tests.browser.checks import dark_violations, overflow, violations
from tests.browser.conftest import NewPage
from tests.service import PROJECT, TOOLS, Service, eventually

#: Milliseconds within which a busy machine shows what a test waits for.
LONG = 60_000
WIDTHS = (360, 1600)
LISTED = 100_000
#: Elements of the whole page while a long list is shown.
MAX_ELEMENTS = 800
MARKUP = "<script>document.title = 'taken'</script> <img src=x onerror=alert(1)> <b>steeped</b>"
#: Notes whose front matter narrows a search.
NOTES = {"one.md": ("red", 2024), "two.md": ("red", 2025), "three.md": ("blue", 2025)}
CODE = """def boil(water):
    return water


def steep(leaves):
    return boil(leaves)


def serve():
    steep(1)
"""
#: Names of files that are markup, have quotes, read from the right, look like an address, or are as long as may be.
ODD_NAMES = (
    'it\'s "<script>alert(1)<script>" & more.md',
    "\u05e9\u05dc\u05d5\u05dd \u0639\u0631\u0628\u064a.md",
    "100%25 #?a=1&b=2.md",
    f"{'long' * 62}.md",
)
GUIDE = "# Tea 🍵\n\nAbout tea.\n\n## Green\n\nGreen tea 🍵 is steeped for two minutes.\n"
VIEWS = (
    "search?q=steeped&explain=1",
    "search?q=zeppelin&mode=keyword",
    "files",
    "files?status=failed",
    "files/at?path=guide.md&line=7",
    "symbols",
    "symbols?name=boil&way=callers&depth=2",
    "symbols?name=steep&way=references",
    "grep?pattern=steep&lines=1",
)

expect.set_options(timeout=LONG)


@pytest.fixture(scope="module")
def tool(running: Service, root: Path) -> str:
    """A tool that is ready, with a file that failed and one whose text is markup."""
    folder = root / "tea"
    folder.mkdir()
    files = {"guide.md": GUIDE, "tea.py": CODE, "markup.txt": MARKUP, "broken.pdf": "%PDF-1.7", "empty.txt": ""}
    for name, text in files.items():
        (folder / name).write_text(text)
    return made(running, folder)


def made(running: Service, folder: Path, **body: object) -> str:
    tool = running.local_tool(folder, **body)
    running.wait(tool, seconds=LONG / 1000)
    return tool


def visit(running: Service, new_page: NewPage, tool: str, route: str = "", **options: object) -> Page:
    page = new_page(**options)
    page.goto(f"http://127.0.0.1:{running.env['API_PORT']}/#/tools/{tool}/{route}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    return page


def shown_files(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Files")


def show(page: Page, tool: str, route: str) -> None:
    page.evaluate("to => { location.hash = to; }", f"#/tools/{tool}/{route}")


def test_the_first_question_is_answered_with_its_place(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, tool, "search")
    page.get_by_label("Question").fill("how long is green tea steeped")
    page.get_by_role("button", name="Search", exact=True).click()
    hit = page.get_by_role("listitem").filter(has_text="two minutes")
    expect(hit.locator("mark").first).to_be_visible()
    assert {"green", "tea", "steeped"} <= {text.lower() for text in hit.locator("mark").all_inner_texts()}
    expect(page.get_by_role("note").get_by_role("link", name="3 of 5 files searched")).to_be_visible()
    page.get_by_text("Steps of this search").click()
    expect(page.get_by_text("The index is asked")).to_be_visible()
    hit.get_by_role("link", name=re.compile(r"guide\.md:\d")).click()
    expect(page.get_by_role("heading", name="guide.md")).to_be_visible()
    expect(page.locator(".line.target").filter(has_text="two minutes")).to_be_visible()


#: One of each kind in the languages that have colours of their own; strings and comments that go on, or never end.
COLOURED = {
    "a.py": ("def", '"""Doc\n # in it"""', "# why"),
    "a.ts": ("const", "`a\n${b}`", "/* one\n two"),
    "a.rs": ("fn", '"a\\"b"', "// it's"),
    "a.sql": ("SELECT", "'it''s'", "-- why"),
    "a.yaml": ("true", "'a # b'", "# why"),
    "a.lua": ("local", '"a"', "-- why"),
}


def test_code_has_colours_and_stays_the_same_text(running: Service, new_page: NewPage, root: Path) -> None:
    folder = root / "coloured"
    folder.mkdir()
    for name, parts in COLOURED.items():
        (folder / name).write_text("\n".join(f"steeped {part} 12" for part in (*parts, "<b>'x")))
    (folder / "plain.txt").write_text("def steeped # 12\n")
    tool = made(running, folder)
    page = visit(running, new_page, tool, "search?q=steeped&mode=keyword")
    for name, (keyword, string, comment) in COLOURED.items():
        hit = page.locator(".hit").filter(has_text=name)
        expect(hit.locator(".code-keyword", has_text=keyword).first).to_be_visible()
        assert string.split("\n")[0] in hit.locator(".code-string").all_inner_texts()
        assert any(text.startswith(comment.split("\n")[0]) for text in hit.locator(".code-comment").all_inner_texts())
        assert "12" in hit.locator(".code-number").all_inner_texts()
        assert hit.locator(".excerpt").first.inner_text().replace("\n\n", "\n") in (folder / name).read_text()
    assert page.locator(".hit").filter(has_text="plain.txt").locator("[class^=code-]").count() == 0
    assert page.locator("mark").count() > len(COLOURED)
    assert not violations(page)
    show(page, tool, "files/at?path=a.py&line=1")
    expect(page.locator(".line .code-keyword", has_text="def")).to_be_visible()
    assert not violations(page)
    assert not dark_violations(page)


def test_rows_of_a_table_are_shown_as_a_table(running: Service, new_page: NewPage, root: Path) -> None:
    folder = root / "tables"
    folder.mkdir()
    (folder / "teas.csv").write_text('name,note\nsencha,"green, ""steeped"" <b>"\nassam,\n')
    bars = "| name | minutes | |\n| --- | --- | --- |\n| steeped \\| oolong | 3 | hot |\n"
    (folder / "teas.md").write_text(f"One | bar.\n\n{bars}")
    (folder / "teas.py").write_text(f"x = '''\n{bars}'''\n")
    wide = f"| steeped | {'many words ' * 20} | `too_large_word` |\n"
    (folder / "wide.md").write_text("Tea.\n\n" * 9 + f"| a | b | c |\n| --- | --- | --- |\n{wide}")
    page = visit(running, new_page, made(running, folder), "search?q=steeped&mode=keyword")
    # controls in a row are as high as each other
    heights = page.locator("form.search > .row").first.locator("input, select, button")
    assert len(set(heights.evaluate_all("each => each.map(one => one.offsetHeight)"))) == 1
    rows = page.locator(".hit").filter(has_text="teas.csv").get_by_role("row")
    expect(rows).to_have_count(3)
    assert rows.nth(1).get_by_role("cell").all_inner_texts() == ["2", "sencha", 'green, "steeped" <b>']
    assert rows.nth(1).locator("mark").all_inner_texts() == ["steeped"]
    document = page.locator(".hit").filter(has_text="teas.md")
    assert document.get_by_role("columnheader").all_inner_texts() == ["name", "minutes"]
    assert document.get_by_role("row").nth(1).get_by_role("cell").all_inner_texts() == [
        "5",
        "steeped | oolong",
        "3",
        "hot",
    ]
    expect(document.locator("pre").filter(has_text="One | bar.")).to_be_visible()
    code = page.locator(".hit").filter(has_text="teas.py")
    expect(code.locator(".code-string").first).to_be_visible()
    assert code.get_by_role("table").count() == 0
    assert not violations(page)
    assert not dark_violations(page)
    page.set_viewport_size({"width": WIDTHS[0], "height": 800})
    assert overflow(page) <= 0
    # on a phone neither a number of a line nor a word is cut where there is room
    cells = page.locator(".hit").filter(has_text="wide.md").get_by_role("row").nth(1).get_by_role("cell")
    lines = """cell => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      return new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size;
    }"""
    assert cells.first.inner_text() == "21"
    assert [cells.first.evaluate(lines), cells.last.evaluate(lines)] == [1, 1]


def test_the_pieces_of_a_text_are_the_text(running: Service, new_page: NewPage, tool: str) -> None:
    chance = random.Random(57)
    signs = ["'", '"', "`", "/*", "*/", "//", "#", "--", "\\", "\n", "<", "0x1f", "def", "if", "é🍵", " ", "'''", "x"]
    texts = ["".join(chance.choices(signs, k=60)) for _ in range(300)]
    page = visit(running, new_page, tool)
    joined = r"""async ([texts, names]) => {
      const { src } = document.querySelector("script[type=module]");
      const { colourLines } = await import(src.replace("main.js", "views/colours.js"));
      const join = (line) => line.map(([, part]) => part).join("");
      return names.map((name) => texts.map((text) => colourLines(text, name).map(join).join("\n")));
    }"""
    for made_of in page.evaluate(joined, [texts, [*COLOURED, "a.json"]]):
        assert made_of == texts


def test_text_that_reads_from_the_right_begins_there(running: Service, new_page: NewPage, root: Path) -> None:
    folder = root / "hebrew"
    folder.mkdir()
    (folder / "a.txt").write_text("\u05e9\u05dc\u05d5\u05dd boil\n")
    page = visit(running, new_page, made(running, folder), "search?q=boil")
    text = page.locator(".texts pre")
    expect(text).to_be_visible()
    gap = """element => {
      const range = document.createRange();
      range.selectNodeContents(element);
      return element.getBoundingClientRect().right - range.getBoundingClientRect().right;
    }"""
    assert text.evaluate(gap) < 1


def test_parts_of_a_score_add_up_to_it(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, tool, "search?q=boil+water&explain=1")
    table = page.get_by_role("table", name="Parts of the score").first
    expect(table).to_be_visible()
    *parts, whole = [float(text) for text in table.locator("td.number").all_inner_texts()]
    assert len(parts) >= 2
    assert sum(parts) == pytest.approx(whole, abs=0.001 * len(parts))
    assert whole == pytest.approx(float(page.locator(".score").first.inner_text()))


def test_no_score_is_shown_that_is_no_chance(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, tool)

    def uncalibrated(route: Route) -> None:
        answer = route.fetch()
        text = re.sub(r'"calibrated": ?true', '"calibrated": false', answer.text())
        route.fulfill(response=answer, body=text)

    show(page, tool, "search?q=boil+water+tea+leaves")
    expect(page.locator(".hit .score").first).to_be_visible()
    page.route("**/query", uncalibrated)
    show(page, tool, "search?q=boil+water+and+tea+leaves&least=0.9")
    expect(page.get_by_text("so no hit is hidden")).to_be_visible()
    expect(page.locator(".hit").first).to_be_visible()
    expect(page.locator(".score")).to_have_count(0)
    expect(page.get_by_text("Scores of these hits")).to_have_count(0)


def test_an_older_answer_never_replaces_a_newer_one(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, tool, "search")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(f"**/{tool}/query", hold)
    show(page, tool, "search?q=boil")
    eventually(lambda: bool(page.evaluate("1")) and len(held) == 1, 30)
    show(page, tool, "search?q=minutes")
    eventually(lambda: bool(page.evaluate("1")) and len(held) == 2, 30)
    held[1].continue_()
    expect(page.locator(".hit mark").first).to_have_text("minutes")
    # the first request was given up
    eventually(lambda: bool(page.evaluate("1")) and held[0].request.failure is not None, 30)
    expect(page.locator(".hit mark").first).to_have_text("minutes")


def test_one_hit_is_shown_for_each_file(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, tool, "search?q=tea")
    of_guide = page.locator(".hit").filter(has=page.get_by_role("link", name=re.compile(r"guide\.md:\d")))
    expect(of_guide).to_have_count(2)
    page.get_by_text("Filters and options").click()
    page.get_by_label("One hit per file").check()
    page.get_by_role("button", name="Search", exact=True).click()
    expect(of_guide).to_have_count(1)
    expect(page.get_by_text("Filters and options (1 chosen)")).to_be_visible()
    expect(of_guide).to_contain_text("About tea.")
    expect(of_guide).to_contain_text("two minutes")


def test_the_original_of_a_file_is_downloaded(running: Service, new_page: NewPage) -> None:
    folder = running.node("uploaded", "folder")
    original = b"# Caf\xe9\r\n\r\nTea in Latin-1.\r\n"
    sent = {"files": (ODD_NAMES[0], original, "text/markdown")}
    running.client.post(f"/api/projects/{PROJECT}/uploads", data={"parent_id": folder}, files=sent).raise_for_status()
    tool = running.tool(node_id=folder)
    running.wait(tool, seconds=LONG / 1000)
    page = visit(running, new_page, tool, f"files/at?{urlencode({'path': ODD_NAMES[0]})}")
    expect(page.get_by_role("region", name="Text")).to_contain_text("Tea in Latin-1.")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the original").click()
    assert Path(download.value.path()).read_bytes() == original
    assert download.value.suggested_filename.endswith(".md")
    page.goto(page.url.partition("#")[0] + f"#/tools/{tool}/search?q=tea")
    with page.expect_download() as download:
        page.locator(".hit").first.get_by_role("button", name="Download original").click()
    assert Path(download.value.path()).read_bytes() == original


def test_the_text_of_a_file_of_the_service_s_machine_is_downloaded(
    running: Service, new_page: NewPage, tool: str
) -> None:
    page = visit(running, new_page, tool, "search?q=tea")
    hit = page.locator(".hit").first
    with page.expect_download() as download:
        hit.get_by_role("button", name="Download text").click()
    found = running.post(f"/api/tools/search/{tool}/query", {"query": "tea"}, 200)["results"][0]
    text = running.get(f"/api/tools/search/{tool}/files/{found['file_node_id']}")["text"]
    assert Path(download.value.path()).read_text() == text
    assert download.value.suggested_filename == f"{Path(found['file_path']).name}.txt"
    hit.locator(".path").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the text").click()
    assert Path(download.value.path()).read_text() == text


def test_a_full_rebuild_reads_every_file_again(running: Service, new_page: NewPage, root: Path) -> None:
    folder = root / "rebuilt"
    folder.mkdir()
    for name in ("a.md", "b.md"):
        (folder / name).write_text(f"# {name}\n")
    tool = made(running, folder)
    page = visit(running, new_page, tool)
    for number, button in enumerate(("Update", "Read every file again"), start=2):
        page.get_by_role("button", name=button, exact=True).click()
        eventually(lambda number=number: len(running.get(f"{TOOLS}/{tool}/tasks")["items"]) == number, 30)  # type: ignore[misc]
        assert running.wait(tool, seconds=LONG / 1000)["indexed_files"] == 2
        expect(page.get_by_role("button", name=button, exact=True)).to_be_visible()
    runs = 'SELECT o."full" FROM search_index_task o JOIN search_tool t USING (index_id) WHERE t.id = %s'
    assert running.rows(f"{runs} ORDER BY o.created_at", tool) == [(False,), (False,), (True,)]


def test_an_older_index_is_renewed_after_its_price_is_told(running: Service, new_page: NewPage, root: Path) -> None:
    folder = root / "renewed"
    folder.mkdir()
    (folder / "tide.py").write_text("def rise():\n    return 1\n")
    tool = made(running, folder)
    page = visit(running, new_page, tool)
    summary = page.get_by_text("Code is embedded without the name of its file")
    expect(page.get_by_role("button", name="Read every file again")).to_be_visible()
    expect(summary).to_have_count(0)
    older = "UPDATE search_index i SET settings = settings - 'file_stems', identity = 'older' FROM search_tool t"
    running.rows(f"{older} WHERE t.index_id = i.id AND t.id = %s", tool)
    page.reload()
    summary.click()
    page.get_by_role("button", name="See what it costs").click()
    expect(page.get_by_role("region", name="Estimate")).to_contain_text("Code is embedded again")
    assert violations(page) == []
    page.get_by_role("button", name="Embed the code again").click()
    eventually(lambda: running.get(f"{TOOLS}/{tool}")["index"]["file_stems"], LONG / 1000)
    assert running.wait(tool)["total_chunks"] == 1
    expect(summary).to_have_count(0)


def test_odd_names_are_shown_as_they_are(running: Service, new_page: NewPage, root: Path) -> None:
    folder = root / "<b>odd<b> \u202e\"folder\" & 'co' %41"
    folder.mkdir()
    for name in ODD_NAMES:
        (folder / name).write_text(f"# A zebra\n\nThis is {len(name)} characters long.\n")
    tool = made(running, folder)
    for route in ("", "search?q=zebra", "files"):
        page = visit(running, new_page, tool, route, viewport={"width": 360, "height": 900})
        expect(page.get_by_text(re.compile(r"^(Loading|Searching) "))).to_have_count(0)
        assert overflow(page) == 0, route
        assert violations(page) == [], route
    for name in ODD_NAMES:
        expect(shown_files(page).get_by_role("option").filter(has_text=name)).to_have_count(1)
        show(page, tool, f"files/at?{urlencode({'path': name})}")
        expect(page.get_by_role("heading", level=2)).to_have_text(name)
        expect(page.get_by_role("region", name="Text")).to_contain_text(f"This is {len(name)} characters long.")
        assert overflow(page) == 0, name
        show(page, tool, "files")
    assert page.locator("main :is(script, img)").count() == 0


def test_nothing_found_says_what_to_try(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, tool, "search?q=zeppelin&mode=keyword&path=*.md")
    expect(page.get_by_role("heading", name="Nothing found")).to_be_visible()
    page.get_by_role("link", name="Search without filters.").click()
    expect(page.get_by_role("link", name="Search by meaning too.")).to_be_visible()
    page.get_by_role("link", name="Look for the exact text with grep.").click()
    expect(page.get_by_role("heading", name="No line matches")).to_be_visible()
    show(page, tool, "search?q=tea&path=none/**")
    expect(page.get_by_role("alert")).to_contain_text("filter")


def test_text_of_files_stays_text(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, tool, "search?q=script+steeped&mode=keyword&path=markup.txt")
    expect(page.locator(".hit pre").first).to_have_text(MARKUP)
    for route in ("files/at?path=markup.txt", "grep?pattern=script"):
        show(page, tool, route)
        expect(page.get_by_role("region").get_by_text("onerror=alert(1)").first).to_be_visible()
        assert page.locator("main :is(script, img, code b)").count() == 0
    assert "taken" not in page.title()


def test_a_file_shows_its_chunks_and_what_is_embedded(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, tool, "files/at?path=guide.md")
    page.get_by_role("button", name="Chunk 2, lines 5 to 7").click()
    chunk = page.get_by_role("complementary", name="The chosen chunk")
    expect(chunk.get_by_role("region", name="Embedded text")).to_have_text(
        "Tea 🍵\n\n## Green\n\nGreen tea 🍵 is steeped for two minutes."
    )
    # characters outside the basic plane count once
    texts = page.locator(".in-chunk").all_inner_texts()
    assert "".join(texts) == "## GreenGreen tea 🍵 is steeped for two minutes."
    expect(chunk).to_contain_text("Lines5 to 7")
    page.reload()
    expect(chunk).to_be_visible()
    show(page, tool, "files/at?path=nowhere.md")
    expect(page.get_by_role("alert")).to_contain_text("nowhere.md")


def test_a_file_that_fails_leaves_nothing_of_the_one_before(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, tool, "files/at?path=guide.md")
    text = page.get_by_role("region", name="Text")
    expect(text).to_be_visible()
    show(page, tool, "files/at?path=nowhere.md")
    expect(page.get_by_role("alert")).to_contain_text("nowhere.md")
    expect(text).to_have_count(0)


def test_a_view_is_in_order_after_an_error(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, tool, "files/at?path=guide.md")
    parts = page.locator("section.view > :not([hidden])")
    expect(page.get_by_role("region", name="Text")).to_be_visible()
    order = parts.evaluate_all("all => all.map(each => each.className)")
    page.route(
        "**/chunks?*", lambda route: route.fulfill(status=503, json={"code": "busy", "detail": "\u202eTry again."})
    )
    page.get_by_role("button", name="Chunk 2, lines 5 to 7").click()
    # a mark in a file's name must not turn the sentence round
    expect(page.get_by_role("alert")).to_have_text("Try again.")
    page.unroute("**/chunks?*")
    page.get_by_role("button", name="Chunk 1, lines 1 to 3").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    assert parts.evaluate_all("all => all.map(each => each.className)") == order


def test_a_long_file_is_read_in_parts(running: Service, new_page: NewPage, root: Path) -> None:
    folder = root / "long"
    folder.mkdir()
    (folder / "log.txt").write_text("".join(f"entry {number} of the log\n" for number in range(1, 901)))
    # found by words only, which spares the embedding
    tool = made(running, folder, config={"max_token_count": 10})
    page = visit(running, new_page, tool, "files/at?path=log.txt&line=300")
    expect(page.locator(".line.target")).to_contain_text("entry 300 of")
    assert page.locator(".line").count() == 400
    page.get_by_role("button", name="Later lines").click()
    expect(page.get_by_text("Lines 680 to 900 of 900")).to_be_visible()
    expect(page.get_by_text("entry 900 of")).to_be_visible()
    expect(page.get_by_role("button", name="Later lines")).to_have_count(0)


def test_a_failed_file_is_found_mended_and_retried(running: Service, new_page: NewPage, root: Path) -> None:
    folder = root / "mended"
    folder.mkdir()
    (folder / "good.md").write_text("# Good")
    (folder / "empty.txt").write_text("")
    (folder / "broken.pdf").write_text("%PDF-1.7")
    page = visit(running, new_page, made(running, folder), "files")
    page.get_by_role("link", name="Failed 1").click()
    row = shown_files(page).get_by_role("option", name="broken.pdf")
    expect(row).to_contain_text("parse failed")
    row.click()
    details = page.get_by_role("complementary", name="The chosen file")
    expect(details).to_contain_text("What to do:")
    (folder / "broken.pdf").write_text("green tea")
    page.get_by_role("button", name="Retry 1 failed file").click()
    expect(page.get_by_role("link", name="Failed 0")).to_be_visible()
    expect(page.get_by_role("heading", name="No such file")).to_be_visible()
    page.get_by_role("link", name="All 3").click()
    expect(shown_files(page).get_by_role("option", name="broken.pdf")).to_contain_text("indexed")
    page.get_by_label("Reason").select_option("empty")
    expect(shown_files(page).get_by_role("option")).to_have_text(
        [re.compile(r"empty: The file has no content; add some and index again\.$")]
    )
    page.get_by_label("Path contains").fill("good")
    expect(page.get_by_role("heading", name="No such file")).to_be_visible()
    expect(page.get_by_text("No file.", exact=True)).to_be_visible()


def test_a_hundred_thousand_files_scroll(running: Service, new_page: NewPage, root: Path) -> None:
    folder = root / "many"
    folder.mkdir()
    (folder / "one.md").write_text("# One")
    tool = made(running, folder)
    running.rows(
        "INSERT INTO search_index_file (id, index_id, key, path, id_path, size_bytes, stamp, code_version,"
        "  task_id, status) SELECT gen_random_uuid(), index_id, int8send(n),"
        "  'p' || lpad(n::text, 6, '0') || '.md', '/p' || n, 1, '', '', task_id, 'indexed'"
        f" FROM search_index_file, generate_series(1, {LISTED}) n WHERE path = 'one.md' AND index_id ="
        " (SELECT index_id FROM search_index_file JOIN search_tool t USING (index_id) WHERE t.id = %s LIMIT 1)"
        " RETURNING 1",
        tool,
    )  # fmt: skip # a line each
    page = visit(running, new_page, tool, "files")
    rows = shown_files(page).get_by_role("option")
    expect(rows.first).to_contain_text("one.md")
    port = shown_files(page)
    # another key ends the way to the last file
    port.press("End")
    port.press("Home")
    for _ in range(5):
        page.evaluate("tool => fetch(`/api/tools/search/${tool}/files?limit=200`).then((a) => a.text())", tool)
    expect(shown_files(page).get_by_role("option", name="one.md")).to_be_visible(timeout=1)
    page.get_by_label("Path contains").fill("p005")
    expect(rows.first).to_contain_text("p005000.md")
    port.press("End")
    expect(shown_files(page).get_by_role("option", name="p005999.md")).to_be_visible()
    assert page.evaluate("document.querySelectorAll('*').length") < MAX_ELEMENTS
    page.get_by_label("Path contains").fill("p09")
    expect(rows.first).to_contain_text("p090000.md")
    port.press("End")
    expect(shown_files(page).get_by_role("option", name="p099999.md")).to_be_visible()
    # pages that left the memory are loaded again
    port.press("Home")
    expect(shown_files(page).get_by_role("option", name="p090000.md")).to_be_visible()
    page.get_by_label("Path contains").fill("p09999")
    expect(rows).to_have_count(10)
    expect(rows.last).to_contain_text("p099999.md")


def test_symbols_are_walked(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, tool, "symbols")
    page.get_by_label("Name").fill("boi")
    page.get_by_role("link", name="Callers of boil").click()
    expect(page.get_by_role("list").get_by_text("def steep(leaves)")).to_be_visible()
    page.get_by_label("Follow").select_option("2")
    expect(page.get_by_text("by way of steep")).to_be_visible()
    page.get_by_role("link", name="Callees of serve").click()
    expect(page.get_by_role("link", name="tea.py:5")).to_be_visible()
    page.get_by_role("link", name="Uses", exact=True).click()
    expect(page.get_by_role("heading", name="No use of this name")).to_be_visible()
    show(page, tool, "symbols?name=steep&way=references")
    page.get_by_role("link", name="tea.py:10").click()
    expect(page.locator(".line.target")).to_contain_text("steep(1)")


def test_grep_marks_lines_and_says_what_is_wrong(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, tool, "grep")
    page.get_by_label("Pattern").fill("STEEP(ed)?")
    page.get_by_label("Regular expression").check()
    page.get_by_label("Files").fill("*.md")
    page.get_by_label("Lines around").fill("1")
    page.get_by_label("Pattern").press("Enter")
    expect(page.get_by_role("heading", name="1 line in 1 file")).to_be_visible()
    expect(page.locator(".grep-hit mark")).to_have_text("steeped")
    page.get_by_label("Upper and lower case differ").check()
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_role("heading", name="No line matches")).to_be_visible()
    page.get_by_label("Pattern").fill("(")
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_role("alert")).to_be_visible()


@pytest.mark.parametrize("press", ["/", "Control+k", "Meta+k"])
def test_a_key_leads_to_a_search_from_every_view(running: Service, new_page: NewPage, tool: str, press: str) -> None:
    page = visit(running, new_page, tool)
    of_tool = ("", "search", "files", "map", "symbols", "grep", "tree", "settings", "nowhere", "files/at?path=tea.py")
    routes = [*(f"tools/{tool}/{view}" for view in of_tool), "", "new", "new?from=s3", "workers", "nowhere"]
    for route in [*routes, f"tools/{UUID(int=0)}"]:
        page.evaluate("to => { location.hash = to; }", f"#/{route}")
        page.wait_for_timeout(300)
        field = page.locator("main input:not([data-search])").first
        if press != "/" and field.count() and field.is_visible():
            field.focus()
        page.keyboard.press(press)
        expect(page.locator("[data-search]:focus"), route).to_have_count(1)


def test_an_answer_is_reached_by_the_keyboard(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, tool, "files")
    expect(shown_files(page).get_by_role("option")).to_have_count(5)
    shown_files(page).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary", name="The chosen file")).to_contain_text("empty.txt")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="guide.md")).to_be_visible()
    show(page, tool, "search")
    expect(page.get_by_label("Question")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("green tea")
    page.keyboard.press("Enter")
    expect(page.locator(".hit").first).to_be_visible()


def test_a_tool_that_is_deleted_meanwhile_is_gone(running: Service, new_page: NewPage, root: Path) -> None:
    folder = root / "gone"
    folder.mkdir()
    (folder / "a.md").write_text("# A")
    tool = made(running, folder)
    page = visit(running, new_page, tool, "search?q=a")
    expect(page.locator(".hit")).to_be_visible()
    running.client.delete(f"{TOOLS}/{tool}").raise_for_status()
    page.get_by_label("Question").fill("b")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_role("alert").or_(page.get_by_role("heading", name="This folder is gone")).first).to_be_visible()


def test_a_question_is_answered_after_a_restart(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, tool, "search")
    api = running.processes["api"]
    stop([api])
    page.get_by_label("Question").fill("green tea")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_text("Foldex does not answer")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    running.processes["api"] = start(api.program, running.home)
    eventually(api.program.ready, 60, running.logs)
    expect(page.locator(".hit").first).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_every_view_is_accessible_at_every_width(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, tool, reduced_motion="reduce")
    for route in VIEWS:
        show(page, tool, route)
        expect(page.get_by_text(re.compile(r"^(Loading|Searching) "))).to_have_count(0)
        assert violations(page) == [], route
        assert dark_violations(page) == [], route
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert overflow(page) == 0, (route, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_declared_metadata_narrows_a_search(running: Service, new_page: NewPage, root: Path, width: int) -> None:
    folder = root / f"noted-{width}"
    folder.mkdir()
    for name, (team, year) in NOTES.items():
        (folder / name).write_text(f"---\nteam: {team}\nyear: {year}\n---\n\nTea is steeped.\n")
    config = {"metadata": {"team": "string", "year": "int", "unused": "string"}, "metadata_from": ["front_matter"]}
    tool = made(running, folder, config=config)
    page = visit(running, new_page, tool, "search?q=steeped", viewport={"width": width, "height": 900})
    hits = page.get_by_role("listitem").filter(has_text="steeped")
    expect(hits).to_have_count(3)
    expect(page.get_by_role("navigation", name="unused")).to_have_count(0)
    page.get_by_role("navigation", name="team").get_by_role("link", name="red 2").click()
    expect(hits).to_have_count(2)
    page.get_by_role("navigation", name="year").get_by_role("link", name="2025 2").click()
    expect(hits).to_have_count(1)
    expect(hits).to_contain_text("two.md")
    assert violations(page) == dark_violations(page) == []
    assert overflow(page) == 0
    # the address holds the choice, and a second click takes it back
    page.reload()
    expect(hits).to_have_count(1)
    page.get_by_role("navigation", name="team").get_by_role("link", name="red 2").click()
    expect(hits).to_have_count(2)
    page.get_by_role("link", name="2025 2").click()
    expect(hits).to_have_count(3)


def test_each_chosen_value_of_a_link_can_be_taken_back(running: Service, new_page: NewPage, root: Path) -> None:
    folder = root / "linked"
    folder.mkdir()
    for number in range(10):
        (folder / f"{number}.md").write_text(f"---\nyear: {2000 + number}\n---\n\nTea is steeped.\n")
    config = {"metadata": {"year": "int"}, "metadata_from": ["front_matter"]}
    tool = made(running, folder, config=config)
    page = visit(running, new_page, tool, f"search?q=steeped&where={quote(json.dumps({'year': 2009, 'other': ['x']}))}")
    page.get_by_role("navigation", name="other").get_by_role("link").click()
    hits = page.get_by_role("listitem").filter(has_text="steeped")
    expect(hits).to_have_count(1)
    values = page.get_by_role("navigation", name="year").get_by_role("link")
    expect(values).to_have_count(9)
    values.first.click()
    expect(hits).to_have_count(10)
    expect(values).to_have_count(8)
    for nothing in ("[1]", "7", "null", '"x"'):
        show(page, tool, f"search?q=steeped&where={quote(nothing)}")
        expect(hits).to_have_count(10)
        expect(page.get_by_role("navigation", name="0")).to_have_count(0)

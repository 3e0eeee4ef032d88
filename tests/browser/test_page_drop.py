"""Files and folders of the person's computer, dropped on the page as a file manager drops them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, Request, expect

from tests.browser.checks import dark_violations, overflow, violations
from tests.browser.conftest import NewPage
from tests.service import TOOLS, Service, eventually
from worker.settings import Settings

#: Milliseconds within which a busy machine shows what a test waits for.
LONG = 60_000
#: Names that a form, an address or a pattern could take apart.
ODD_NAMES = ('a "quoted" name; x=y.md', "50% & #1?.md", "%41.md", "Löffel 日本.md", ".hidden.md", "a'b[c]{d}*.md")

expect.set_options(timeout=LONG)


def visit(running: Service, new_page: NewPage, route: str = "#/", **options: object) -> Page:
    page = new_page(**options)
    page.add_init_script("sessionStorage.setItem('foldex.project', 'dropped')")
    page.goto(f"http://127.0.0.1:{running.env['API_PORT']}/{route}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    return page


def drop(page: Page, *paths: Path, text: str = "") -> None:
    """Drag files, folders or a text over the page, and let them go in the middle of its first field or heading."""
    box = page.get_by_label("Question").or_(page.locator(".drop")).first.bounding_box()
    assert box is not None
    data = {
        "items": [{"mimeType": "text/plain", "data": text}] if text else [],
        "files": [str(path) for path in paths],
        "dragOperationsMask": 1,
    }
    browser = page.context.new_cdp_session(page)
    place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    for kind in ("dragEnter", "dragOver", "drop"):
        browser.send("Input.dispatchDragEvent", {"type": kind, **place, "data": data})


def paths_of(running: Service, tool: str) -> set[str]:
    return {file["file_path"] for file in running.files(tool)}


def stored(page: Page) -> str:
    """The id of the tool whose view is shown."""
    page.wait_for_url(re.compile(r"#/tools/[0-9a-f-]{36}$"))
    return page.url.rpartition("/")[2]


def test_a_folder_is_dropped_anywhere_on_the_page(running: Service, new_page: NewPage, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    (notes / "deep" / "er").mkdir(parents=True)
    (notes / "nothing").mkdir()
    (notes / "deep" / "er" / "tea.md").write_text("# Tea\n\nGreen tea is steeped for two minutes.\n")
    for name in ODD_NAMES:
        (notes / name).write_text(f"# Of {len(name)}\n")
    page = visit(running, new_page)
    drop(page, notes)
    expect(page.get_by_role("heading", level=1, name="Add a folder")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text=f"{len(ODD_NAMES) + 1} files")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Upload and index").click()
    tool = stored(page)
    assert running.get(f"{TOOLS}/{tool}")["name"] == "notes"
    running.wait(tool, seconds=LONG / 1000)
    assert paths_of(running, tool) == {"deep/er/tea.md", *ODD_NAMES}
    page.get_by_role("main").get_by_role("link", name="Search").first.click()
    page.get_by_label("Question").fill("how long is green tea steeped?")
    page.keyboard.press("Enter")
    expect(page.locator(".hit").filter(has_text="two minutes")).to_be_visible()


def test_many_files_are_sent_in_several_requests(running: Service, new_page: NewPage, tmp_path: Path) -> None:
    for number in range(520):
        file = tmp_path / "many" / str(number % 7) / f"{number}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("# Tea")
    page, sent = visit(running, new_page, "#/new?from=files"), list[Request]()
    page.on("request", lambda request: sent.append(request) if request.url.endswith("/uploads") else None)
    drop(page, tmp_path / "many")
    expect(page.get_by_role("status").filter(has_text="520 files")).to_be_visible()
    page.get_by_role("button", name="Upload and index").click()
    tool = stored(page)
    assert len(sent) == 3
    eventually(lambda: running.status(tool)["total_files"] == 520, 60, running.logs)
    running.post(f"{TOOLS}/{tool}/cancel", {})


def test_what_is_not_stored_is_said_in_words_for_people(running: Service, new_page: NewPage, tmp_path: Path) -> None:
    large = Settings.model_fields["max_file_bytes"].default + 1
    for name, content in (("tea.md", b"# Tea"), ("virus.exe", b"MZ"), ("large.txt", b"x" * large), ("gone.md", b"# G")):
        (tmp_path / name).write_bytes(content)
    page = visit(running, new_page, "#/new?from=files", viewport={"width": 360, "height": 900})
    drop(page, *sorted(tmp_path.iterdir()))
    expect(page.get_by_role("status").filter(has_text="4 files")).to_be_visible()
    (tmp_path / "gone.md").unlink()
    page.get_by_role("button", name="Upload and index").click()
    alert = page.get_by_role("alert").filter(has_text="3 files were not stored")
    for said in ("virus.exe: Files of this type", "large.txt: It is larger than Foldex takes", "gone.md: The browser"):
        expect(alert).to_contain_text(said)
    assert "MAX_FILE_BYTES" not in alert.inner_text()
    assert violations(page) == []
    assert dark_violations(page) == []
    assert overflow(page) == 0
    page.get_by_role("link", name="Go on to the folder").click()
    tool = stored(page)
    running.wait(tool, seconds=LONG / 1000)
    assert paths_of(running, tool) == {"tea.md"}


def test_what_is_dropped_twice_counts_once(running: Service, new_page: NewPage, tmp_path: Path) -> None:
    one, other = tmp_path / "one" / "tea.md", tmp_path / "other" / "tea.md"
    for file, text in ((one, "# Tea"), (other, "# Green tea")):
        file.parent.mkdir()
        file.write_text(text)
    (tmp_path / "nothing").mkdir()
    page = visit(running, new_page, "#/new?from=files")
    status = page.get_by_role("status")
    drop(page, tmp_path / "nothing")
    expect(status.filter(has_text="No file is in it.")).to_be_visible()
    for _ in range(2):
        drop(page, one)
    expect(status.filter(has_text="1 file, 5 B")).to_be_visible()
    expect(page.get_by_text("Two files of one path")).to_have_count(0)
    drop(page, other)
    expect(page.get_by_text("Two files of one path")).to_be_visible()
    expect(status.filter(has_text="1 file, 11 B")).to_be_visible()
    # another view forgets nothing
    page.get_by_role("link", name="Folders", exact=True).click()
    page.go_back()
    expect(status.filter(has_text="1 file, 11 B")).to_be_visible()
    page.get_by_role("button", name="Choose others").click()
    expect(status.filter(has_text="Nothing is chosen yet.")).to_be_visible()


def test_a_dropped_text_is_still_the_field_s(running: Service, new_page: NewPage) -> None:
    page = visit(running, new_page)
    drop(page, text="green tea")
    expect(page.get_by_label("Question")).to_have_value("green tea")
    expect(page.get_by_role("heading", level=1, name="Search your folders")).to_be_visible()


@pytest.mark.parametrize(
    ("paths", "top"),
    [(["a/b.md", "a/c/d.md"], "a"), (["a/b.md", "c/d.md"], ""), (["a/b.md", "c.md"], ""), (["a"], ""), ([], "")],
)
def test_one_folder_gives_its_name(running: Service, new_page: NewPage, paths: list[str], top: str) -> None:
    page = visit(running, new_page)
    script = """async (paths) => {
      const base = document.querySelector('script[type=module]').src.replace('main.js', '');
      const { topOf } = await import(`${base}views/drop-files.js`);
      return topOf(paths);
    }"""
    assert page.evaluate(script, paths) == top

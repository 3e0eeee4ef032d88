"""Pictures of the page: the map of a folder, its runs over time, and the scores of an answer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.checks import dark_violations, overflow, violations
from tests.browser.conftest import NewPage
from tests.service import Service

#: Milliseconds within which a busy machine shows what a test waits for.
LONG = 60_000

expect.set_options(timeout=LONG)


@pytest.fixture(scope="module")
def tool(running: Service, root: Path) -> str:
    """A folder with a large and a small part, and with a file that is left out, after two runs."""
    folder = root / "pictures"
    for name, size in (("large/one.md", 9000), ("large/two.md", 3000), ("small/three.md", 2000), ("four.md", 1500)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# The {name}\n\n" + "Tides turn twice a day.\n\n" * (size // 25))
    (folder / "small" / "empty.md").write_text("")
    tool = running.local_tool(folder, project="pictures")
    running.wait(tool, seconds=LONG / 1000)
    running.post(f"/api/tools/search/{tool}/reindex", {})
    running.wait(tool, seconds=LONG / 1000)
    return tool


def visit(running: Service, new_page: NewPage, route: str, **options: object) -> Page:
    page = new_page(**options)
    page.add_init_script("sessionStorage.setItem('foldex.project', 'pictures')")
    page.goto(f"http://127.0.0.1:{running.env['API_PORT']}/{route}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    return page


def area(page: Page, name: str) -> float:
    box = page.get_by_role("group", name="Map by size").get_by_role("link", name=re.compile(f"^{name}")).bounding_box()
    assert box is not None
    return box["width"] * box["height"]


def test_the_map_shows_each_part_by_its_size(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, f"#/tools/{tool}/map")
    large = page.get_by_role("link", name=re.compile(r"^large\/: \d+ kB, 2 files, 2 indexed"))
    expect(large.first).to_be_visible()
    sizes = [area(page, name) for name in ("large", "small", "four.md")]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] / sizes[1] == pytest.approx(6, rel=0.2)
    # half of its files are left out, so that the folder has their colour
    small = page.get_by_role("link", name=re.compile(r"^small\/.* 1 left out, 1 indexed"))
    expect(small.locator("rect").first).to_have_class(re.compile("cell-skipped"))
    assert violations(page) == []
    assert dark_violations(page) == []
    page.get_by_text("The same as a table").click()
    expect(page.get_by_role("row").filter(has_text="large/")).to_contain_text("2 indexed")


@pytest.mark.parametrize("width", [360, 700, 1200, 2000])
def test_names_on_the_map_fit_their_parts_and_say_something(
    running: Service, new_page: NewPage, tool: str, width: int
) -> None:
    page = visit(running, new_page, f"#/tools/{tool}/map", viewport={"width": width, "height": 900})
    expect(page.locator("svg.map text").filter(has_text="large").first).to_be_visible()
    # the box of each text, and that of the part before it
    script = """texts => texts.map((text) => {
      const [box, own] = [text.parentElement.querySelector('rect'), text].map((each) => each.getBoundingClientRect());
      return [text.textContent, own.left >= box.left && own.right <= box.right && own.bottom <= box.bottom];
    })"""
    shown = page.locator("svg.map text").evaluate_all(script)
    assert [text for text, fits in shown if not fits] == []
    assert [text for text, _ in shown if text.endswith("…") and len(text) < 7] == []
    if width > 1000:
        assert {"one.md", "two.md"} <= {text for text, _ in shown}


def test_the_keyboard_goes_through_the_map(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, f"#/tools/{tool}/map")
    cells = page.get_by_role("group", name="Map by size").get_by_role("link")
    expect(cells).to_have_count(3)
    cells.first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith(("small/", "four.md"))
    page.keyboard.press("ArrowLeft")
    expect(cells.first).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(cells.first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name=re.compile("^one.md"))).to_be_visible()
    expect(page).to_have_url(re.compile("map.at=large"))
    page.get_by_role("link", name=re.compile("^two.md")).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=2)).to_contain_text("two.md")
    page.go_back()
    page.get_by_role("navigation", name="Folder of the map").get_by_role("link", name="Whole folder").click()
    expect(cells).to_have_count(3)


@pytest.mark.parametrize("width", [360, 2000])
def test_pictures_fit_every_width(running: Service, new_page: NewPage, tool: str, width: int) -> None:
    viewport = {"width": width, "height": 900}
    page = visit(running, new_page, f"#/tools/{tool}/map", viewport=viewport)
    expect(page.get_by_role("link", name=re.compile(r"^large\/")).first).to_be_visible()
    assert overflow(page) == 0
    page.goto(page.url.split("#")[0] + f"#/tools/{tool}")
    expect(page.get_by_role("img", name=re.compile("^Files of 2 runs"))).to_be_visible()
    assert overflow(page) == 0
    assert violations(page) == []


def test_runs_are_seen_over_time(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, "#/")
    spark = page.get_by_role("img", name=re.compile("^Last 2 runs of pictures; the newest worked on"))
    expect(spark.locator("rect")).to_have_count(2)
    assert violations(page) == []
    page.get_by_role("link", name="pictures", exact=True).click()
    chart = page.get_by_role("img", name=re.compile(r"^Embedded of 2 runs from .*: at most \d+, \d+ in the newest"))
    expect(chart.locator("rect")).to_have_count(2)
    first, second = (float(chart.locator("rect").nth(number).get_attribute("height") or 0) for number in range(2))
    assert first >= second > 0


def test_scores_below_the_least_are_hidden_and_still_drawn(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, f"#/tools/{tool}/search?q=tides+of+three")
    hits = page.get_by_role("region", name="Answer").locator("li.hit")
    expect(hits.first).to_be_visible()
    count = hits.count()
    scores = [float(text) for text in page.locator(".hit .score").all_inner_texts()]
    page.get_by_text("Filters and options").click()
    least = (max(scores) + min(scores)) / 2
    page.get_by_label("Score at least").fill(f"{least:.2f}")
    page.get_by_role("button", name="Search", exact=True).click()
    kept = sum(score >= round(least, 2) for score in scores)
    expect(hits).to_have_count(kept)
    expect(page.get_by_text(f"below the score {least:.2f}")).to_be_visible()
    page.get_by_text("Scores of these hits").click()
    picture = page.get_by_role("img", name=re.compile(f"^Scores of {count} hits .* below {least:.2f}"))
    expect(picture.locator("line.threshold")).to_have_count(1)
    assert violations(page) == []
    assert dark_violations(page) == []
    page.get_by_role("link", name="Show all.").click()
    expect(hits).to_have_count(count)

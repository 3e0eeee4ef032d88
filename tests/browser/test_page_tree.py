"""The page's tree of summaries: estimated, built, opened, changed and deleted, over a real service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGCONT, SIGSTOP

import pytest
from playwright.sync_api import Page, expect

from tests.browser.checks import overflow, violations
from tests.browser.conftest import NewPage
from tests.service import TOOLS, Service, another_api, eventually

#: Milliseconds within which a busy machine shows what a test waits for.
LONG = 60_000
TOPICS = ("apples and pears of the orchard", "engines with pistons and gears", "judges and lawyers of the court")
FILES = 18

expect.set_options(timeout=LONG)


def made(running: Service, folder: Path) -> str:
    folder.mkdir()
    for number in range(FILES):
        topic = TOPICS[number * len(TOPICS) // FILES]
        (folder / f"{number:02}.md").write_text(f"# Report {number}\n\nReport {number} tells of {topic}.\n")
    # the default method needs packages that a machine may lack
    tool = running.local_tool(folder, config={"raptor": {"cluster_method": "adjacent"}})
    running.wait(tool, seconds=LONG / 1000)
    return tool


@pytest.fixture(scope="module")
def tool(running: Service, root: Path) -> str:
    """A tool that is ready, without a tree."""
    return made(running, root / "reports")


@pytest.fixture(scope="module")
def built(running: Service, root: Path) -> str:
    """A tool with a tree."""
    tool = made(running, root / "built")
    running.post(f"{TOOLS}/{tool}/raptor/build", {})
    eventually(lambda: running.get(f"{TOOLS}/{tool}/raptor/status")["has_index"], LONG / 1000, running.logs)
    return tool


@contextmanager
def halted(running: Service) -> Iterator[None]:
    """No worker does anything meanwhile."""
    worker = running.processes["worker-all"]
    worker.signal(SIGSTOP)
    try:
        yield
    finally:
        worker.signal(SIGCONT)


def visit(running: Service, new_page: NewPage, tool: str) -> Page:
    page = new_page()
    page.goto(f"http://127.0.0.1:{running.env['API_PORT']}/#/tools/{tool}/tree")
    expect(page.get_by_role("heading", name="Tree of summaries")).to_be_visible()
    return page


def test_settings_have_their_help_and_their_bounds(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, tool)
    page.get_by_text("Settings of the tree").click()
    expect(page.get_by_text("Maximum layers of summaries.")).to_be_visible()
    assert violations(page) == []
    page.get_by_label("Max layers").fill("99")
    page.get_by_role("button", name="Save the settings").click()
    expect(page.get_by_label("Max layers")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Max layers").fill("2")
    page.get_by_role("button", name="Save the settings").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    raptor = running.get(f"{TOOLS}/{tool}")["config"]["raptor"]
    assert (raptor["max_layers"], raptor["cluster_method"]) == (2, "adjacent")


def test_a_build_is_estimated_and_watched_to_its_end(running: Service, new_page: NewPage, root: Path) -> None:
    tool = made(running, root / "watched")
    page = visit(running, new_page, tool)
    expect(page.get_by_role("heading", name="No tree yet")).to_be_visible()
    page.get_by_role("button", name="Build the tree").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"Texts{FILES}")
    expect(dialog).to_contain_text("local/extractive extracts")
    with halted(running):
        dialog.get_by_role("button", name="Build", exact=True).click()
        expect(page.get_by_role("progressbar", name="Progress of the build")).to_be_visible()
    expect(page.get_by_text("The tree is complete.")).to_be_visible()
    expect(page.get_by_text("local/extractive extracts")).to_be_visible()
    page.get_by_role("button", name="Delete the tree").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the tree").click()
    expect(page.get_by_role("heading", name="No tree yet")).to_be_visible()
    assert running.get(f"{TOOLS}/{tool}/raptor/status")["has_index"] is False


def test_nodes_are_opened_down_to_the_text_of_a_file(running: Service, new_page: NewPage, built: str) -> None:
    page = visit(running, new_page, built)
    node = page.get_by_role("treeitem").first
    node.focus()
    while page.locator(":focus").get_attribute("aria-expanded") is not None:
        page.keyboard.press("ArrowRight")
        expect(page.locator(":focus")).to_have_attribute("aria-expanded", "true")
        expect(page.locator(":focus").get_by_role("treeitem").first).to_be_visible()
        page.keyboard.press("ArrowRight")
    assert violations(page) == []
    for width in (360, 1600):
        page.set_viewport_size({"width": width, "height": 900})
        assert overflow(page) == 0, width
    expect(page.locator(":focus")).to_contain_text("tells of")
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary", name="The chosen chunk")).to_contain_text("tells of")


def test_a_build_is_cancelled(running: Service, new_page: NewPage, root: Path) -> None:
    tool = made(running, root / "cancelled")
    page = visit(running, new_page, tool)
    with halted(running):
        page.get_by_role("button", name="Build the tree").click()
        page.get_by_role("dialog").get_by_role("button", name="Build", exact=True).click()
        page.get_by_role("button", name="Cancel the build").click()
        expect(page.get_by_role("region", name="The tree")).to_contain_text("cancelled")
    assert running.get(f"{TOOLS}/{tool}/raptor/status")["indexing_status"] == "cancelled"


def test_a_service_without_a_model_names_the_remedy(running: Service, new_page: NewPage, tool: str) -> None:
    with another_api(running, DEFAULT_LLM_MODEL="") as without:
        page = visit(without, new_page, tool)
        page.get_by_role("button", name="Build the tree").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("alert")).to_contain_text("Name a language model in the settings")
        page.keyboard.press("Escape")
        page.get_by_role("link", name="Search").click()
        page.get_by_text("Filters and options").click()
        page.get_by_label("Tree of summaries").select_option("collapsed")
        page.get_by_label("Question").fill("apples")
        page.keyboard.press("Enter")
        expect(page.get_by_role("link", name="Build the tree of summaries.")).to_be_visible()


def test_the_tree_is_seen_as_rings(running: Service, new_page: NewPage, built: str) -> None:
    page = visit(running, new_page, built)
    rings = page.get_by_role("listbox", name="Summaries by ring").get_by_role("option")
    expect(rings.first).to_be_visible()
    state = running.get(f"{TOOLS}/{built}/raptor/status")
    assert rings.count() == state["summary_nodes"]
    region = page.get_by_role("region", name="Picture of the tree")
    rings.first.focus()
    top = region.get_by_text(f"Level {state['max_level']}", exact=True)
    expect(top).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(region.get_by_text(f"Level {state['max_level'] - 1}", exact=True)).to_be_visible()
    page.keyboard.press("ArrowUp")
    expect(top).to_be_visible()
    assert violations(page) == []
    assert overflow(page) == 0

"""A new stack, opened by the link that it prints: from the first look to an answer in a folder of one's own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT

import pytest
from playwright.sync_api import Locator, Page, expect

from api.stack.page_link import page_address
from api.stack.record import ROOT
from tests.browser.checks import violations
from tests.browser.conftest import NewPage
from tests.chaos.full import only_in_full
from tests.service import Service, environment
from worker.machine.page_links import forget_links, page_links_file

#: Milliseconds within which a busy machine shows what a test waits for.
LONG = 60_000
#: More controls than any view has before the one that is meant.
MOST_TABS = 80
QUESTION = "how long does green tea steep?"
#: The answer, beside files that share fewer words with the question: it is asked before words or vectors are indexed.
TEXTS = {
    "tea.md": "# Tea\n\nHow long does it take? Green tea is steeped for two minutes.\n",
    "coffee.md": "# Coffee\n\nHow long coffee is ground does not matter; the beans are green at first.\n",
    "roof.md": "# Roof\n\nA steep roof lasts long, whatever it is painted with.\n",
}

expect.set_options(timeout=LONG)


@contextmanager
def stack(home: Path) -> Iterator[str]:
    """A stack as `foldex up` starts it. Gives the link that it prints."""
    given = {name: value for name, value in environment(home, "", "").items() if value}
    started = subprocess.Popen(
        [sys.executable, "-u", "-m", "api", "up"],
        env={**os.environ, **given},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert started.stdout is not None
    try:
        printed = ""
        for line in started.stdout:
            printed += line
            if found := re.match(r"Page    (http://\S+)$", line):
                yield found[1]
                break
        else:
            pytest.fail(printed)
    finally:
        started.send_signal(SIGINT)
        started.communicate(timeout=120)


def add(page: Page, folder: Path) -> None:
    page.evaluate("location.hash = '#/new'")
    page.get_by_label("Folder", exact=True).fill(str(folder))


def ask(page: Page) -> None:
    """Search the folder that is being indexed."""
    page.get_by_role("main").get_by_role("link", name="Search").first.click()
    page.get_by_label("Question").fill(QUESTION)
    page.keyboard.press("Enter")
    expect(page.get_by_role("listitem").filter(has_text="two minutes")).to_be_visible()


def click(page: Page, target: Locator) -> None:
    expect(target).to_be_visible()
    target.click()


def press(page: Page, target: Locator) -> None:
    """Reach an element by the keyboard alone. Press Enter on it, unless somebody types there."""
    expect(target).to_be_visible()
    for _ in range(MOST_TABS):
        if target.evaluate("element => element === document.activeElement"):
            if not target.evaluate("element => element.matches('input')"):
                page.keyboard.press("Enter")
            return
        page.keyboard.press("Tab")
    pytest.fail(f"the keyboard does not reach {target}")


def find_answer(page: Page, link: str, folder: Path, use: Callable[[Page, Locator], None]) -> None:
    """From the printed link to the file that answers, by what the page shows alone."""
    page.goto(link)
    main = page.get_by_role("main")
    use(page, main.get_by_role("link", name=re.compile("^Add (a|the first) folder$")).last)
    use(page, page.get_by_label("Folder", exact=True))
    page.keyboard.type(str(folder))
    use(page, page.get_by_role("button", name="Index", exact=True))
    expect(page.get_by_role("heading", level=1, name=folder.name)).to_be_visible()
    use(page, main.get_by_role("link", name="Search").first)
    use(page, page.get_by_label("Question"))
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    first = page.locator(".hit").first
    expect(first).to_contain_text("two minutes")
    use(page, first.get_by_role("link", name=re.compile(r"^tea\.md")))
    expect(page.get_by_role("heading", name="tea.md")).to_be_visible()
    expect(main).to_contain_text("Green tea is steeped for two minutes.")


def folder_at(place: Path) -> Path:
    place.mkdir()
    for name, text in TEXTS.items():
        (place / name).write_text(text)
    return place


@only_in_full
@pytest.mark.timeout(300)
def test_a_new_stack_answers_in_a_folder_of_ones_own(tmp_path: Path, new_page: NewPage) -> None:
    with stack(tmp_path / "home") as link:
        find_answer(new_page(), link, folder_at(tmp_path / "notes"), click)


def test_a_folder_of_ones_own_is_added_and_answers(running: Service, tmp_path: Path, new_page: NewPage) -> None:
    folder, other = folder_at(tmp_path / "notes"), folder_at(tmp_path / "more")
    links, page = page_links_file(running.home), new_page()
    link = page_address(running.home, dict(running.env))
    page.goto(link)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert "link" not in page.url
    add(page, folder)
    expect(page.get_by_text("has not been allowed to read this folder yet")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Allow it to read the folder").click()
    expect(page.get_by_role("region", name="Estimate")).to_contain_text("Files3")
    page.get_by_role("button", name="Index", exact=True).click()
    ask(page)
    # nothing that goes to another port holds the token
    assert page.context.cookies() == []
    # the same link opens nothing else, whoever has seen it
    late = new_page()
    late.goto(link)
    expect(late.get_by_role("alert").filter(has_text="link was used before")).to_be_visible()
    add(late, other)
    expect(late.get_by_text(f"foldex index {other}")).to_be_visible()
    # the session holds in another tab, until the stack is started again
    tab = page.context.new_page()
    tab.goto(link)
    expect(tab.get_by_role("alert")).to_have_count(0)
    add(tab, other)
    expect(tab.get_by_role("button", name="Allow it to read the folder")).to_be_visible()
    forget_links(links)
    tab.reload()
    add(tab, other)
    expect(tab.get_by_text(f"foldex index {other}")).to_be_visible()
    # one press of Index allows the folder and indexes it
    tab.goto(page_address(running.home, dict(running.env)))
    add(tab, other)
    tab.get_by_role("button", name="Index", exact=True).click()
    expect(tab.get_by_role("heading", name="more")).to_be_visible()


@pytest.mark.parametrize("use", [click, press])
def test_a_person_finds_an_answer_in_a_folder_of_their_own_by_the_page_alone(
    running: Service, tmp_path: Path, new_page: NewPage, use: Callable[[Page, Locator], None]
) -> None:
    link = page_address(running.home, dict(running.env))
    find_answer(new_page(), link, folder_at(tmp_path / f"notes-{use.__name__}"), use)

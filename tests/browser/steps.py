"""Follows the numbered steps of a page of the docs in a browser: `python -m tests.browser.steps PAGE FILE URL`.

A step is made of sentences such as `Choose *Search*.`, `Type "a question" into *Question*.` and
`The page shows "text".` It fails on any other sentence. FILE gets `ok`, or why a step failed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from api.stack.processes import which
from tests.browser.conftest import BROWSERS

#: Milliseconds within which a busy machine shows what a step waits for.
LONG = 60_000


def choose(page: Page, name: str) -> None:
    """Press the link or button with a name. A button of the view comes before links of the frame."""
    button, link = (page.get_by_role(role, name=name, exact=True) for role in ("button", "link"))
    expect(button.or_(link).first).to_be_visible()
    (button if button.count() else link).first.click()


def type_in(page: Page, text: str, label: str) -> None:
    page.get_by_label(label, exact=True).fill(text)


def see(page: Page, text: str) -> None:
    expect(page.get_by_role("main").get_by_text(text).first).to_be_visible()


#: What a sentence means.
SENTENCES: tuple[tuple[str, Callable[..., None]], ...] = (
    (r"Choose \*([^*]+)\*\.", choose),
    (r'Type "([^"]+)" into \*([^*]+)\*\.', type_in),
    (r'(?:The page|The first hit) shows "([^"]+)"[^.]*\.', see),
)


def steps(text: str) -> list[str]:
    """The numbered steps of a text."""
    return re.findall(r"^\d+\. (.+)$", text, re.MULTILINE)


def follow(page: Page, step: str) -> None:
    """Do what a step says. Raises `AssertionError`."""
    rest = step
    while rest:
        for pattern, act in SENTENCES:
            if found := re.match(pattern + r"\s*", rest):
                act(page, *found.groups())
                rest = rest[found.end() :]
                break
        else:
            raise AssertionError(f"no test knows how to follow {rest!r}")


def follow_all(document: Path, url: str) -> None:
    """Follow all steps of a document from the page at `url`. Raises `AssertionError`."""
    followed = steps(document.read_text())
    assert followed
    with sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.getuid() == 0 else []  # Chromium refuses its sandbox to root
        browser = playwright.chromium.launch(executable_path=which(*BROWSERS), args=options)
        expect.set_options(timeout=LONG)
        page = browser.new_page()
        page.set_default_timeout(LONG)
        page.goto(url)
        for step in followed:
            try:
                follow(page, step)
            except Exception as error:
                raise AssertionError(f"{step}\n{error}") from error
        browser.close()


if __name__ == "__main__":
    document, report, url = sys.argv[1:]
    try:
        follow_all(Path(document), url)
    except AssertionError as error:
        Path(report).write_text(str(error))
    else:
        Path(report).write_text("ok")

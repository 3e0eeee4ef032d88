"""A real browser, headless."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from api.stack.processes import which

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
#: Begins what Chromium itself logs of an answer with an error status, or of none. The page says it to its reader.
FAILED_REQUEST = "Failed to load resource"

#: Opens a page in a context of its own, with the given options of the context.
NewPage = Callable[..., Page]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = which(*BROWSERS)
    if path is None:
        # CI installs it, so that it is an error there
        (pytest.fail if os.environ.get("CI") else pytest.skip)("install chromium to run")
    with sync_playwright() as playwright:
        # Chromium refuses its sandbox to root
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"] if os.getuid() == 0 else [])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def page(browser: Browser) -> Page:
    return browser.new_page(viewport={"width": 1600, "height": 900})


@pytest.fixture
def new_page(browser: Browser) -> Iterator[NewPage]:
    """Pages that must log no error, violate no policy and ask no foreign host while the test runs."""
    wrong, contexts = list[str](), list[Any]()

    def logged(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not message.text.startswith(FAILED_REQUEST):
            wrong.append(message.text)

    def asked(request: Request) -> None:
        if not request.url.startswith("http://127.0.0.1:"):
            wrong.append(request.url)

    def opened(**options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", logged)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", asked)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []

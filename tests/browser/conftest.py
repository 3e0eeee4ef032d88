"""A real browser, headless."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, sync_playwright

from api.stack.processes import which

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def page() -> Iterator[Page]:
    path = which(*BROWSERS)
    if path is None:
        # CI installs it, so that it is an error there
        (pytest.fail if os.environ.get("CI") else pytest.skip)("install chromium to run")
    with sync_playwright() as playwright:
        # Chromium refuses its sandbox to root
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"] if os.getuid() == 0 else [])
        yield browser.new_page(viewport={"width": 1600, "height": 900})
        browser.close()

"""Takes a picture of the page for the docs: `python -m docs.screenshot URL FILE`."""

from __future__ import annotations

import os
import sys

from playwright.sync_api import sync_playwright

from api.stack.processes import which

SIZE = {"width": 1100, "height": 620}


def main(url: str, file: str) -> None:
    """Write what the page at `url` shows once it has loaded."""
    with sync_playwright() as playwright:
        # Chromium refuses its sandbox to root
        options = ["--no-sandbox"] if os.getuid() == 0 else []
        path = which("chromium", "chromium-browser", "google-chrome")
        browser = playwright.chromium.launch(executable_path=path, args=options)
        page = browser.new_page(viewport=SIZE, color_scheme="light")  # type: ignore[arg-type] # a plain dictionary
        page.goto(url)
        page.get_by_role("heading", level=2).first.wait_for()
        # what the first calls lead to, such as the hits of a question
        page.wait_for_load_state("networkidle")
        page.screenshot(path=file)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

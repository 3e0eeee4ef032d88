"""What holds for every view of the page."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

#: The rules of WCAG 2.2 at level AA, and the checker's own advice.
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


#: The rules that depend on colours.
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}


def violations(page: Page) -> list[str]:
    """What the accessibility checker finds, as rule and elements."""
    return _found(page, RULES)


def dark_violations(page: Page) -> list[str]:
    """What the checker finds in dark colours alone. The page is light again afterwards."""
    page.emulate_media(color_scheme="dark")
    found = _found(page, COLOURS)
    page.emulate_media(color_scheme="light")
    return found


def _found(page: Page, options: dict[str, Any]) -> list[str]:
    found = Axe().run(page, options=options).response["violations"]
    return [f"{each['id']}: {[node['target'] for node in each['nodes']]}" for each in found]


def overflow(page: Page) -> int:
    """Pixels by which the document is wider than the window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

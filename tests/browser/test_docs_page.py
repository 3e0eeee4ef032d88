"""The API's own documentation is there without any network."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.integration.test_keys import new_key
from tests.service import Service


@pytest.fixture(scope="module")
def running(behind_keys: Service) -> Service:
    return behind_keys


def test_every_call_is_shown_and_nothing_is_fetched_from_elsewhere(running: Service, page: Page) -> None:
    api, asked = f"http://127.0.0.1:{running.env['API_PORT']}/", list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{api}docs")
    for call in ("/api/tools/search/{tool_id}/query", "/api/projects/{project_id}/nodes"):
        expect(page.get_by_text(call, exact=True).first).to_be_visible(timeout=20_000)
    foreign = [url for url in asked if not url.startswith((api, "data:"))]
    assert foreign == []


def test_a_call_can_be_tried_with_a_key(running: Service, page: Page) -> None:
    page.goto(f"http://127.0.0.1:{running.env['API_PORT']}/docs")
    page.get_by_role("button", name="Authorize").first.click(timeout=20_000)
    page.locator(".auth-container input").fill(new_key(running, "one"))
    apply, close = page.locator(".auth-btn-wrapper button").all()
    apply.click()
    close.click()
    call = page.locator("[id$='-list_tools']")
    call.get_by_role("button").first.click()
    call.get_by_role("button", name="Try it out").click()
    call.get_by_role("button", name="Execute").click()
    expect(call.locator(".live-responses-table .response-col_status").last).to_contain_text("200", timeout=20_000)

"""The page of a service that asks for keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.checks import violations
from tests.browser.conftest import NewPage
from tests.integration.test_keys import foldex, new_key
from tests.service import TOOLS, Service


@pytest.fixture(scope="module")
def running(behind_keys: Service) -> Service:
    return behind_keys


def enter(page: Page, key: str) -> None:
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Use this key").click()


@pytest.fixture
def opened(running: Service, new_page: NewPage) -> Page:
    page = new_page()
    page.goto(f"http://127.0.0.1:{running.env['API_PORT']}/")
    return page


def test_a_wrong_key_is_refused_and_a_right_one_stays_in_the_tab(
    running: Service, opened: Page, new_page: NewPage
) -> None:
    expect(opened.get_by_label("API key")).to_be_visible()
    assert violations(opened) == []
    for wrong in ("wrong", "\u043a\u043b\u044e\u0447 \U0001f511"):
        enter(opened, wrong)
        expect(opened.get_by_role("alert")).to_contain_text("foldex keys create")
        expect(opened.get_by_text("Foldex does not answer")).to_be_hidden()
    key = new_key(running, "kept")
    enter(opened, key)
    expect(opened.get_by_role("heading", name="Folders", exact=True)).to_be_visible()
    opened.reload()
    expect(opened.get_by_role("heading", name="Folders", exact=True)).to_be_visible()
    assert key not in opened.evaluate("JSON.stringify(localStorage) + document.cookie + location.href")
    # another tab has no key
    other = opened.context.new_page()
    other.goto(opened.url)
    expect(other.get_by_label("API key")).to_be_visible()
    opened.get_by_role("button", name="Forget the key").click()
    expect(opened.get_by_label("API key")).to_be_visible()
    assert opened.evaluate("sessionStorage.length") == 0


def test_a_tool_is_made_in_the_project_of_the_key(running: Service, opened: Page, root: Path) -> None:
    key = new_key(running, "owner")
    assert foldex(running, "grants", "add", "owner", str(root)).returncode == 0
    enter(opened, key)
    opened.get_by_role("link", name="Add the first folder").click()
    opened.get_by_label("Folder", exact=True).fill(str(root))
    expect(opened.get_by_label("Project")).to_have_count(0)
    opened.get_by_role("button", name="Index", exact=True).click()
    expect(opened.get_by_text("pending").first).to_be_visible()
    [tool] = running.client.get(TOOLS, headers={"Authorization": f"Bearer {key}"}).json()["items"]
    assert tool["project_id"] == "owner"


def test_what_a_key_may_not_do_is_not_offered(running: Service, opened: Page, root: Path) -> None:
    owner = new_key(running, "readers")
    assert foldex(running, "grants", "add", "readers", str(root)).returncode == 0
    body = {"project_id": "readers", "source": {"kind": "local", "path": str(root)}, "name": "shared"}
    made = running.client.post(TOOLS, json=body, headers={"Authorization": f"Bearer {owner}"}).json()["tool_id"]
    reader = foldex(running, "keys", "create", "readers", "--scope", "search").stdout.split()[0]
    status = running.client.get(f"{TOOLS}/{made}/status", headers={"Authorization": f"Bearer {owner}"}).json()
    told = f"data: {json.dumps({**status, 'total_files': 1, 'failed_files': 1})}\n\n"
    offered = ("Add a folder", "Cancel", "Update", "Delete", "Settings", "Build the tree")

    def shown(name: str) -> set[str]:
        found = opened.get_by_role("link", name=name).or_(opened.get_by_role("button", name=name))
        return {name} if found.count() else set()

    for key, may in ((owner, True), (reader, False)):
        enter(opened, key)
        expect(opened.get_by_role("link", name="shared", exact=True)).to_be_visible()
        expect(opened.get_by_role("link", name="Add a folder")).to_have_count(int(may))
        seen = set[str]().union(*map(shown, offered))
        opened.goto(f"{opened.url.split('#')[0]}#/tools/{made}")
        expect(opened.get_by_role("link", name="Settings")).to_have_count(int(may))
        expect(opened.get_by_role("region", name="Runs", exact=True)).to_be_visible()
        expect(opened.get_by_role("button", name="Delete")).to_have_count(int(may))
        seen |= set[str]().union(*map(shown, offered))
        opened.get_by_role("link", name="Tree").click()
        expect(opened.get_by_role("heading", name="Tree of summaries")).to_be_visible()
        expect(opened.get_by_role("button", name="Build the tree")).to_have_count(int(may))
        seen |= set[str]().union(*map(shown, offered))
        opened.route("**/events", lambda route: route.fulfill(body=told, content_type="text/event-stream"))
        opened.get_by_role("link", name="Files", exact=True).click()
        opened.reload()
        expect(opened.get_by_role("link", name="Failed 1")).to_be_visible()
        expect(opened.get_by_role("button", name="Retry 1 failed file")).to_have_count(int(may))
        opened.unroute("**/events")
        # by address, too
        for address, field in ((f"tools/{made}/settings", "Name"), ("new", "Folder")):
            opened.goto(f"{opened.url.split('#')[0]}#/{address}")
            expect(opened.get_by_label(field, exact=True)).to_have_count(int(may))
            expect(opened.get_by_text("Your key does not allow this")).to_have_count(int(not may))
        assert seen == ({*offered} - {"Update"} if may else set())
        assert violations(opened) == []
        opened.get_by_role("link", name="Folders").click()
        opened.get_by_role("button", name="Forget the key").click()


def test_a_revoked_key_is_asked_for_again(running: Service, opened: Page) -> None:
    enter(opened, new_key(running, "gone"))
    expect(opened.get_by_role("heading", name="Folders", exact=True)).to_be_visible()
    listed = foldex(running, "keys", "list", "gone").stdout.splitlines()
    assert foldex(running, "keys", "revoke", listed[-1].split()[0]).returncode == 0
    expect(opened.get_by_label("API key")).to_be_visible(timeout=30_000)
    expect(opened.get_by_role("alert")).to_contain_text("missing or invalid")

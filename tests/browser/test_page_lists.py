"""The page of a caller who may not read all files of a tool."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewPage
from tests.browser.test_page_key import enter
from tests.integration.test_acl_of_searches import project_in
from tests.integration.test_keys import foldex
from tests.integration.test_trees import TREE
from tests.service import Service, eventually
from tests.shared_service import SharedService, local_settings


@pytest.fixture(scope="module")
def guarded(shared_service: SharedService, shared_root: Path) -> Service:
    return shared_service.get({**local_settings(shared_root), "AUTH": "on"})


def test_no_view_fails_where_lists_withhold_totals(guarded: Service, new_page: NewPage) -> None:
    project = project_in(guarded)
    project.make("open.md", "# Orchard\n\nThe kestrel of the orchard.\n")
    project.make("more.md", "# Harvest\n\nThe harvest of apples begins in autumn.\n")
    project.make("hidden.md", "# Wages\n\nThe kestrel earns gold.\n", acl=["user:bob"])
    project.index(raptor={**TREE, "llm_model": "local/extractive"})
    eventually(lambda: project.get("/raptor/status", None)["indexing_status"] == "indexed", 60)
    found = project.get("/files", None)["items"][0]["file_id"]
    views = ["", "/search?q=kestrel", "/files", f"/files/{found}", "/map", "/symbols", "/grep?pattern=kestrel", "/tree"]
    for scope in ("search", "admin"):
        page = new_page()
        page.goto(f"http://127.0.0.1:{guarded.env['API_PORT']}/")
        enter(page, foldex(guarded, "keys", "create", project.name, "--scope", scope).stdout.split()[0])
        row = page.get_by_role("listitem").filter(has=page.get_by_role("link", name="root", exact=True))
        expect(row).to_be_visible()
        expect(row.get_by_role("img")).to_have_count(0)
        addresses = ["workers", *(f"tools/{project.tool}{view}" for view in views)]
        for address in addresses + [f"tools/{project.tool}/settings"] * (scope == "admin"):
            page.goto(f"{page.url.split('#')[0]}#/{address}")
            expect(page.get_by_role("main").get_by_role("heading").first).to_be_visible()
            page.wait_for_load_state("networkidle")
            expect(page.get_by_text("This view failed")).to_have_count(0)
        page.goto(f"{page.url.split('#')[0]}#/tools/{project.tool}")
        runs = page.get_by_role("region", name="Table of runs").locator("tbody tr").first
        expect(runs.locator("td").nth(5)).to_have_text("\u2013")
        expect(runs.locator("td").nth(6)).to_have_text("\u2013")
    # a build costs as much as the settings allow, as far as this caller may know
    page.goto(f"{page.url.split('#')[0]}#/tools/{project.tool}/tree")
    page.get_by_role("button", name="Build again").click()
    expect(page.get_by_text("A whole tree is expected to need")).to_be_visible()
    expect(page.get_by_text("more than the settings allow")).to_have_count(0)

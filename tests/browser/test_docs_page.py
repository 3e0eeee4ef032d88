"""The API's own documentation is there without any network."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.service import Service, environment, next_broker, service
from worker.settings import LOCAL_MODEL


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, database_url: str, redis_url: str) -> Iterator[Service]:
    env = {"DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL, "VECTOR_STORE": "lancedb"}
    home = tmp_path_factory.mktemp("home")
    with service(environment(home, database_url, next_broker(redis_url), **env), workers=False) as started:
        yield started


def test_every_call_is_shown_and_nothing_is_fetched_from_elsewhere(running: Service, page: Page) -> None:
    api, asked = f"http://127.0.0.1:{running.env['API_PORT']}/", list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{api}docs")
    for call in ("/api/tools/search/{tool_id}/query", "/api/projects/{project_id}/nodes"):
        expect(page.get_by_text(call, exact=True).first).to_be_visible(timeout=20_000)
    foreign = [url for url in asked if not url.startswith((api, "data:"))]
    assert foreign == []

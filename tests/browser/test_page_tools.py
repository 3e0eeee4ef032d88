"""The page over a real service without keys: tools are made, watched, changed and deleted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from itertools import count
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Any

import pytest
from playwright.sync_api import FilePayload, Page, Request, Route, expect

from api.stack.processes import start, stop
from tests.browser.checks import dark_violations, overflow, violations
from tests.browser.conftest import NewPage
from tests.service import TOOLS, Service, another_api, eventually
from worker.embed.fleet import FleetLimiter
from worker.embed.rates import SharedRate
from worker.embed.retry import Failure
from worker.settings import LOCAL_MODEL

#: Milliseconds within which a busy machine shows what a test waits for.
LONG = 30_000
WIDTHS = (360, 1200, 2000)
VIEWS = (
    "#/",
    "#/new",
    "#/new?from=s3",
    "#/new?from=nodes",
    "#/new?from=files",
    "#/workers",
    "#/tools/{tool}",
    "#/tools/{tool}/settings",
)

expect.set_options(timeout=LONG)


@pytest.fixture
def folder(root: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with two files, one of which cannot be read."""
    made = root / re.sub(r"\W", "-", request.node.name)
    made.mkdir()
    (made / "tea.md").write_text("# Tea\n\nGreen tea is steeped for two minutes.\n")
    (made / "broken.pdf").write_text("%PDF-1.7")
    return made


@pytest.fixture(scope="module")
def tool(running: Service, root: Path) -> str:
    """A tool that is ready."""
    made = root / "tool"
    made.mkdir()
    (made / "tea.md").write_text("# Tea\n\nGreen tea is steeped for two minutes.\n")
    tool = running.local_tool(made)
    running.wait(tool)
    return tool


@pytest.fixture
def halted(running: Service) -> Iterator[None]:
    """No worker does anything until the test ends."""
    worker = running.processes["worker-all"]
    worker.signal(SIGSTOP)
    yield
    worker.signal(SIGCONT)


def address(running: Service, route: str = "#/") -> str:
    return f"http://127.0.0.1:{running.env['API_PORT']}/{route}"


def visit(running: Service, new_page: NewPage, route: str = "#/", **options: object) -> Page:
    page = new_page(**options)
    page.goto(address(running, route))
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    return page


def tool_id(page: Page) -> str:
    page.wait_for_url(re.compile(r"#/tools/[0-9a-f-]{36}$"))
    return page.url.rpartition("/")[2]


def test_the_first_visit_leads_to_the_first_index(running: Service, new_page: NewPage, folder: Path) -> None:
    page = new_page()
    page.add_init_script("sessionStorage.setItem('foldex.project', 'first')")
    page.goto(address(running))
    page.get_by_role("link", name="Add the first folder").click()
    expect(page.get_by_role("heading", name="Add a folder")).to_be_focused()
    page.get_by_label("Folder", exact=True).fill(str(folder))
    estimate = page.get_by_role("region", name="Estimate")
    expect(estimate).to_contain_text("free")
    expect(estimate).to_contain_text("Files2")
    assert running.get(TOOLS, project_id="first")["items"] == []
    page.get_by_role("button", name="Index", exact=True).click()
    tool = tool_id(page)
    index = page.get_by_role("region", name="Index")
    expect(index).to_contain_text("1 of 2")
    expect(page.get_by_text("ready").first).to_be_visible()
    expect(page.get_by_role("link", name="See 1 failed file")).to_be_visible()
    assert running.get(f"{TOOLS}/{tool}")["project_id"] == "first"
    expect(page.get_by_role("link", name="Flower")).to_have_attribute("href", re.compile("^http://127.0.0.1:9/tasks"))


def test_a_form_is_shown_whole_so_that_no_button_moves(running: Service, new_page: NewPage) -> None:
    page, asked = new_page(), count()
    page.route("**/api/access", lambda route: route.continue_() if next(asked) == 0 else None)
    page.goto(address(running, "#/new"))
    expect(page.get_by_role("button", name="Index", exact=True)).to_be_visible()
    expect(page.get_by_label("Project")).to_be_attached()


SHELF = {
    "kind": "shelf",
    "title": "A shelf",
    "source_schema": {
        "type": "object",
        "properties": {
            "kind": {"const": "shelf", "type": "string"},
            "room": {"type": "string", "minLength": 3, "description": "The room.", "examples": ["attic"]},
            "floor": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            "side": {"enum": ["left", "right"], "type": "string", "default": "left"},
            "is_locked": {"type": "boolean", "default": False},
        },
        "required": ["kind", "room"],
    },
}


def test_a_further_kind_of_source_has_a_form(running: Service, new_page: NewPage) -> None:
    page, sent = new_page(), list[Any]()

    def create(route: Route) -> None:
        sent.append(route.request.post_data_json)
        errors = [{"field": "source.shelf.room", "message": "The room is closed."}]
        route.fulfill(status=422, json={"code": "invalid_request", "detail": "No.", "errors": errors})

    kinds = running.client.get("/api/sources").json()
    page.route("**/api/sources", lambda route: route.fulfill(json=[*kinds, SHELF]))
    page.route("**/api/tools/search", create)
    page.goto(address(running, "#/new?from=shelf"))
    expect(page.get_by_role("link", name="A shelf")).to_have_attribute("aria-current", "page")
    page.get_by_role("button", name="Index", exact=True).click()
    assert sent == []  # the room is required
    page.get_by_label("Room").fill(" cellar ")
    page.get_by_label("Floor").fill("2")
    page.get_by_label("Side").select_option("right")
    page.get_by_label("Is locked").check()
    expect(page.get_by_text("The room is closed.")).to_be_visible()
    page.get_by_role("button", name="Index", exact=True).click()
    eventually(lambda: bool(page.evaluate("1")) and "dry_run" not in sent[-1], 30)
    assert sent[-1]["source"] == {"kind": "shelf", "room": "cellar", "floor": 2, "side": "right", "is_locked": True}
    page.get_by_role("link", name="Stored files").click()
    expect(page.get_by_label("Node id")).to_be_visible()
    expect(page.get_by_label("Room")).to_have_count(0)


def test_a_refused_folder_is_told_with_its_remedy(running: Service, new_page: NewPage) -> None:
    page = visit(running, new_page, "#/new")
    path = page.get_by_label("Folder", exact=True)
    path.fill("/out side/it's")
    expect(page.get_by_role("main")).to_contain_text("foldex index '/out side/it'\\''s'")
    assert "LOCAL_SOURCE_ROOTS" not in page.get_by_role("main").inner_text()
    assert violations(page) == []
    page.get_by_role("button", name="Index", exact=True).click()
    expect(page.get_by_role("main")).to_contain_text("has not been allowed to read this folder")
    assert running.client.get("/api/places").json()["may_permit"] is False


def test_a_folder_is_chosen_among_those_that_may_be_read(running: Service, new_page: NewPage, root: Path) -> None:
    for name in ("shelf/novels/long", "shelf/poems", "shelf/.hidden"):
        (root / name).mkdir(parents=True)
    (root / "shelf" / "novels" / "long" / "a.md").write_text("# A")
    page = visit(running, new_page, "#/new")
    places = page.get_by_role("region", name="Folders to choose from")
    places.get_by_role("button", name=str(root.parent)).click()
    places.get_by_role("button", name=root.name, exact=True).click()
    places.get_by_role("button", name="shelf", exact=True).press("Enter")
    expect(places.get_by_role("listitem")).to_have_text(["novels", "poems"])
    path = page.get_by_label("Folder", exact=True)
    expect(path).to_be_focused()
    page.keyboard.type("po")
    expect(places.get_by_role("listitem")).to_have_text(["poems"])
    path.fill(f"{root}/shelf/")
    places.get_by_role("button", name="novels", exact=True).click()
    expect(places.get_by_role("listitem")).to_have_text(["long"])
    places.get_by_role("button", name="Up").click()
    expect(path).to_have_value(f"{root}/shelf/")
    assert violations(page) == []
    expect(page.get_by_role("region", name="Estimate")).to_contain_text("Files1")


def test_settings_are_chosen_before_the_first_run(running: Service, new_page: NewPage, folder: Path) -> None:
    page = visit(running, new_page, "#/new")
    page.get_by_label("Folder", exact=True).fill(str(folder))
    page.get_by_text("Name, project and settings").click()
    page.get_by_label("Exclude").fill("*.json\ndrafts/")
    page.get_by_label("Exclude").blur()
    page.get_by_label("Every").fill("15m")
    page.get_by_label("caches").check()
    page.get_by_role("button", name="Index", exact=True).click()
    config = running.get(f"{TOOLS}/{tool_id(page)}")["config"]
    assert config["exclude"] == ["*.json", "drafts/"]
    assert (config["every"], config["keep"]) == (900, ["caches"])


def test_dropped_files_are_indexed(running: Service, new_page: NewPage) -> None:
    page = visit(running, new_page, "#/new?from=files")
    page.get_by_label("Name").fill("dropped")
    dropped = page.evaluate_handle(
        "() => { const data = new DataTransfer(); data.items.add(new File(['# Rye bread'], 'bread.md')); return data; }"
    )
    page.locator(".drop").dispatch_event("drop", {"dataTransfer": dropped})
    tea = FilePayload(name="tea.md", mimeType="text/markdown", buffer=b"# Tea")
    program = FilePayload(name="virus.exe", mimeType="application/octet-stream", buffer=b"MZ")
    page.get_by_label("Files", exact=True).set_input_files([tea, program])
    expect(page.get_by_text("3 files")).to_be_visible()
    page.get_by_role("button", name="Upload and index").click()
    expect(page.get_by_role("alert")).to_contain_text("virus.exe")
    page.get_by_role("link", name="Go on to the folder").click()
    tool = tool_id(page)
    eventually(lambda: len(running.files(tool, status="indexed")) == 2, 60, running.logs)
    assert running.get(f"{TOOLS}/{tool}")["name"] == "dropped"
    expect(page.get_by_role("region", name="Index")).to_contain_text("2 of 2")


def test_a_run_is_cancelled(running: Service, new_page: NewPage, folder: Path, halted: None) -> None:
    tool = running.local_tool(folder)
    page = visit(running, new_page)
    page.get_by_role("button", name=f"Cancel {folder.name}").click()
    card = page.get_by_role("listitem").filter(has_text=str(folder))
    expect(card.get_by_text("cancelled", exact=True)).to_be_visible()
    assert running.status(tool)["status"] == "cancelled"


def test_the_workers_show_what_waits_and_runs(
    running: Service, new_page: NewPage, folder: Path, halted: None, tool: str
) -> None:
    page = visit(running, new_page, "#/workers")
    expect(page.get_by_text("Nothing is being indexed.")).to_be_visible()
    created = running.local_tool(folder)
    row = page.get_by_role("listitem").filter(has_text=folder.name)
    expect(row).to_contain_text("waiting for a worker")
    task = running.status(created)["task_id"]
    expect(row.get_by_role("link", name="in Flower")).to_have_attribute("href", re.compile(task))
    expect(page.get_by_role("region", name="Queue")).to_contain_text("Tasks waiting1")
    page.get_by_role("button", name="Check that they answer").click()
    row = page.get_by_role("row").filter(has_text=LOCAL_MODEL)
    expect(row).to_contain_text(re.compile("yes, in [0-9]+ ms"))
    expect(page.get_by_role("region", name="Models", exact=True)).to_contain_text(re.compile(r"As of \d\d:\d\d:\d\d\."))
    expect(page.get_by_role("region", name="Queue")).to_contain_text(re.compile(r"As of\d\d:\d\d:\d\d"))
    # what was so ten seconds ago says nothing of now
    expect(row).to_contain_text("not checked")
    running.post(f"{TOOLS}/{created}/cancel", {})
    expect(page.get_by_text("Nothing is being indexed.")).to_be_visible()


def test_two_bars_show_words_and_meaning(running: Service, new_page: NewPage, folder: Path, halted: None) -> None:
    tool = running.local_tool(folder)
    set_counts = (
        "UPDATE search_index_task SET status = 'indexing', listing = false, total_files = 4, total_bytes = 4000,"
        " started_at = now() - interval '60 s', worked_from = now() - interval '60 s',"
        " indexed_files = 1, done_bytes = 1000, searchable_files = 3, text_read = 3000, text_left = 1000,"
        " progress = 0.25, total_chunks = 9, vector_chunks = 2"
        " WHERE tool_id = %s RETURNING id"
    )
    assert running.rows(set_counts, tool)
    page = visit(running, new_page, f"#/tools/{tool}")
    words = page.get_by_role("progressbar", name=f"Words of {folder.name}")
    meaning = page.get_by_role("progressbar", name=f"Meaning of {folder.name}")
    expect(words).to_have_js_property("value", 0.75)
    expect(meaning).to_have_js_property("value", 0.25)
    index = page.get_by_role("region", name="Index")
    expect(index).to_contain_text(re.compile(r"Words: 75 %, about 2\d s left"))
    expect(index).to_contain_text(re.compile(r"Meaning: 25 %, about 2\d s left"))
    expect(index).to_contain_text("By meaning2")
    assert running.rows("UPDATE search_index_task SET searchable_at = now() WHERE tool_id = %s RETURNING id", tool)
    expect(index).to_contain_text(re.compile(r"Words: 100 %\s*Meaning"))
    running.post(f"{TOOLS}/{tool}/cancel", {})


def test_the_budget_of_a_provider_is_shown_as_it_is_spent(running: Service, new_page: NewPage) -> None:
    env = {"DEFAULT_EMBEDDING_MODEL": "openai/m", "EMBEDDING_RPM": "6", "EMBEDDING_API_BASE": "http://127.0.0.1:9"}
    with another_api(running, **env) as api:
        page = visit(api, new_page, "#/workers")
        budget = page.get_by_role("region", name="Budget").get_by_role("listitem").filter(has_text="openai/m")
        expect(budget).to_contain_text("Requests a minute6")
        expect(budget).to_contain_text("Left in 60 s6 of 6")
        expect(budget).to_contain_text("Tokensunlimited")
        rate = SharedRate(f"openai/m {sha256(b'http://127.0.0.1:9').hexdigest()[:16]}", 6, None)
        limiter = FleetLimiter(running.env["REDIS_URL"], rate.name, rate.rate)
        limiter.spend("p", 10, 1)
        expect(budget).to_contain_text("5 of 6")
        limiter.record_failure("r", Failure(90.0, is_rate_limit=True, reason="openai/m is busy (HTTP 429)"))
        expect(budget).to_contain_text("openai/m is busy (HTTP 429). Workers ask again in 1 min")
        assert violations(page) == []


def test_what_happens_is_shown_without_a_reload(running: Service, new_page: NewPage, folder: Path) -> None:
    tool = running.local_tool(folder)
    running.wait(tool)
    page = visit(running, new_page, f"#/tools/{tool}")
    expect(page.get_by_role("region", name="Index")).to_contain_text("1 of 2")
    (folder / "broken.pdf").write_text("mended")
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("region", name="Index")).to_contain_text("2 of 2")
    # a run that someone else starts is seen too
    (folder / "third.md").write_text("# Third")
    running.post(f"{TOOLS}/{tool}/reindex", {})
    expect(page.get_by_role("region", name="Index")).to_contain_text("3 of 3")


def test_settings_are_changed_and_refused_beside_their_field(running: Service, new_page: NewPage, folder: Path) -> None:
    tool = running.local_tool(folder)
    running.wait(tool)
    page = visit(running, new_page, f"#/tools/{tool}/settings")
    shown = page.get_by_role("main").inner_text()
    assert (
        re.findall(
            r"[A-Z]+_[A-Z_]+|\[object",
            shown + " ".join(page.locator("input").evaluate_all("all => all.map(each => each.value)")),
        )
        == []
    )
    page.get_by_label("Chunk size").fill("5")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_label("Chunk size")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("alert").filter(has_text="greater than or equal to 16").first).to_be_visible()
    page.get_by_label("Chunk size").fill("")
    page.get_by_label("Name").fill("renamed")
    page.get_by_label("Watch").check()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("renamed")
    config = running.get(f"{TOOLS}/{tool}")["config"]
    assert (config["watch"], config["chunk_size"]) == (True, None)


def test_a_tool_is_deleted_after_a_question(running: Service, new_page: NewPage, folder: Path) -> None:
    tool = running.local_tool(folder)
    page = visit(running, new_page, f"#/tools/{tool}")
    delete = page.get_by_role("button", name="Delete", exact=True)
    delete.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(delete).to_be_focused()
    assert running.client.get(f"{TOOLS}/{tool}").is_success
    delete.click()
    assert violations(page) == []
    page.get_by_role("button", name="Remove the folder").click()
    expect(page.get_by_text(str(folder))).to_have_count(0)
    assert running.client.get(f"{TOOLS}/{tool}").status_code == 404


def test_a_tool_that_was_deleted_meanwhile(running: Service, new_page: NewPage, folder: Path) -> None:
    tool = running.local_tool(folder)
    page = visit(running, new_page, f"#/tools/{tool}")
    running.client.delete(f"{TOOLS}/{tool}")
    expect(page.get_by_role("heading", name="This folder is gone")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("There is no search tool")
    page.get_by_role("main").get_by_role("link", name="the folders").click()
    expect(page.get_by_role("heading", name="Folders", exact=True)).to_be_visible()


def test_the_page_goes_on_after_the_server_was_away(running: Service, new_page: NewPage, tool: str, root: Path) -> None:
    page = visit(running, new_page, f"#/tools/{tool}")
    expect(page.get_by_role("region", name="Index")).to_contain_text("1 of 1")
    api = running.processes["api"]
    stop([api])
    away = page.get_by_text("Foldex does not answer. The page tries again")
    expect(away).to_be_visible()
    expect(page.get_by_text("Foldex does not answer")).to_have_count(1)
    reindex = page.get_by_role("button", name="Update")
    reindex.click()
    expect(page.get_by_role("alert")).to_have_text("Foldex did not answer; try again once it does.")
    running.processes["api"] = start(api.program, running.home)
    eventually(api.program.ready, 60, running.logs)
    expect(away).to_be_hidden()
    (root / "tool" / "second.md").write_text("# Second")
    reindex.click()
    expect(page.get_by_role("region", name="Index")).to_contain_text("2 of 2")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_service_that_is_frozen_is_told_to_be_away(running: Service, new_page: NewPage, tool: str) -> None:
    page, api = new_page(), running.processes["api"]
    page.clock.install()
    page.goto(address(running, f"#/tools/{tool}/search"))
    page.get_by_label("Question").fill("green tea")
    away = page.get_by_role("status").filter(has_text="Foldex does not answer")
    api.signal(SIGSTOP)
    try:
        page.get_by_role("button", name="Search", exact=True).click()
        with page.expect_request("**/healthz"):
            page.clock.fast_forward(5_000)
        expect(away).to_be_visible()
    finally:
        api.signal(SIGCONT)
    # the call was not given up
    expect(page.get_by_role("heading", name=re.compile(r"^\d hits?$"))).to_be_visible()
    expect(away).to_be_hidden()


@pytest.mark.parametrize("route", ["#/", "#/workers", "#/new"])
def test_an_idle_page_tells_that_the_service_is_frozen(running: Service, new_page: NewPage, route: str) -> None:
    told_while_frozen(running, new_page(), route, open_calls=[])


def test_a_page_that_follows_a_run_tells_that_the_service_is_frozen(
    running: Service, new_page: NewPage, folder: Path, halted: None
) -> None:
    followed, page = running.local_tool(folder), new_page()
    told_while_frozen(running, page, f"#/tools/{followed}/search", open_calls=["events"])
    running.post(f"{TOOLS}/{followed}/cancel", {})
    expect(page.get_by_text("cancelled", exact=True)).to_be_visible()


def told_while_frozen(running: Service, page: Page, route: str, open_calls: list[str]) -> None:
    """Freeze the API once only `open_calls` of the page are open, until the page says so. It then goes on."""
    api, calls = running.processes["api"], set[Request]()

    def begun(call: Request) -> None:
        calls.add(call)

    def ended(call: Request) -> None:
        calls.discard(call)

    def has_settled() -> bool:
        page.wait_for_timeout(100)
        return [call.url.rpartition("/")[2] for call in calls] == open_calls

    page.on("request", begun)
    page.on("requestfinished", ended)
    page.on("requestfailed", ended)
    page.clock.install()
    page.goto(address(running, route))
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    eventually(has_settled, 30, lambda: str(calls))
    away = page.get_by_role("status").filter(has_text="Foldex does not answer")
    api.signal(SIGSTOP)
    try:
        with page.expect_request("**/healthz"):
            page.clock.run_for(20_000)
        expect(away).to_be_visible()
    finally:
        api.signal(SIGCONT)
    expect(away).to_be_hidden()


def test_a_failed_look_is_told_and_repeated(running: Service, new_page: NewPage, tool: str) -> None:
    page = new_page()
    told = {"status": 503, "code": "database_unavailable", "detail": "The database does not answer; try again."}
    page.route("**/events", lambda route: route.fulfill(status=503, json=told))
    page.goto(address(running, f"#/tools/{tool}"))
    alert = page.get_by_role("alert").filter(has_text="The database does not answer")
    expect(alert).to_be_visible()
    page.unroute("**/events")
    expect(alert).to_have_count(0)
    expect(page.get_by_role("region", name="Index")).to_be_visible()


def test_everything_is_reached_by_the_keyboard(running: Service, new_page: NewPage, folder: Path) -> None:
    page = visit(running, new_page)
    keys = page.keyboard
    keys.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    keys.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    keys.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Go to the search field")
    keys.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    # past the question, its button, questions asked before and the project
    add = page.get_by_role("link", name=re.compile("^Add (a|the first) folder$"))
    for _ in range(15):
        keys.press("Tab")
        if add.evaluate("element => element === document.activeElement"):
            break
    expect(add).to_be_focused()
    keys.press("Enter")
    expect(page.get_by_role("heading", level=1, name="Add a folder")).to_be_focused()
    path = page.get_by_label("Folder", exact=True)
    expect(path).to_be_visible()
    # past the four kinds of what to index
    for _ in range(5):
        keys.press("Tab")
    expect(path).to_be_focused()
    keys.type(str(folder))
    expect(page.get_by_role("region", name="Estimate")).to_be_visible()
    keys.press("Enter")
    tool = tool_id(page)
    keys.press("/")
    page.wait_for_url(f"**#/tools/{tool}/search")


def test_a_button_that_goes_leaves_the_focus_beside_it(
    running: Service, new_page: NewPage, folder: Path, halted: None
) -> None:
    page = new_page()
    page.goto(address(running, f"#/tools/{running.local_tool(folder)}"))
    cancel = page.get_by_role("button", name="Cancel")
    cancel.press("Enter")
    expect(cancel).to_have_count(0)
    expect(page.get_by_role("main").locator("a.button").filter(has_text="Search")).to_be_focused()


def test_the_second_press_of_a_double_one_does_nothing(
    running: Service, new_page: NewPage, folder: Path, halted: None
) -> None:
    page, posted = new_page(), list[str]()
    page.goto(address(running, f"#/tools/{running.local_tool(folder)}"))
    page.on("request", lambda request: posted.append(request.url) if request.method == "POST" else None)
    cancel = page.get_by_role("button", name="Cancel")
    cancel.hover()
    page.mouse.down(click_count=2)
    page.mouse.up(click_count=2)
    cancel.click()
    expect(cancel).to_have_count(0)
    assert len(posted) == 1


def test_a_link_leads_to_the_view_and_the_history_back(running: Service, new_page: NewPage, tool: str) -> None:
    page = visit(running, new_page, f"#/tools/{tool}/settings")
    expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_role("region", name="Overview")).to_be_focused()
    page.go_back()
    expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    page.goto(address(running, "#/nowhere"))
    expect(page.get_by_role("heading", name="No such view")).to_be_visible()


def test_the_theme_follows_the_system_until_it_is_chosen(running: Service, new_page: NewPage) -> None:
    page = visit(running, new_page, color_scheme="dark")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Theme: system").click()
    light = page.evaluate(ground)
    assert light != dark
    page.reload()
    expect(page.get_by_role("button", name="Theme: light")).to_be_visible()
    assert page.evaluate(ground) == light
    page.get_by_role("button", name="Theme: light").click()
    assert page.evaluate(ground) == dark


def test_every_view_is_accessible_at_every_width(running: Service, new_page: NewPage, tool: str) -> None:
    page = new_page(reduced_motion="reduce")
    for route in VIEWS:
        page.set_viewport_size({"width": 1200, "height": 900})
        page.goto(address(running, route))
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_text("Loading")).to_have_count(0)
        assert violations(page) == [], route
        assert dark_violations(page) == [], route
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert overflow(page) == 0, (route, width)


@pytest.mark.parametrize(
    ("files", "complete", "asks"), [(100_000, True, False), (100_001, True, True), (5, False, True)]
)
def test_a_very_large_folder_is_asked_about(
    running: Service, new_page: NewPage, folder: Path, files: int, complete: bool, asks: bool
) -> None:
    page, made = new_page(), list[Any]()
    body = {"project_id": "p", "source": {"kind": "local", "path": str(folder)}, "dry_run": True}
    estimate = running.client.post(TOOLS, json=body).json() | {"total_files": files, "complete": complete}

    def answer(route: Route) -> None:
        sent: dict[str, Any] = route.request.post_data_json or {}
        if sent.get("dry_run"):
            route.fulfill(json=estimate)
        else:
            made.append(sent)
            route.fulfill(status=503, json={"code": "locked", "detail": "Later."})

    page.route(
        "**/api/tools/search", lambda route: answer(route) if route.request.method == "POST" else route.continue_()
    )
    page.goto(address(running, "#/new"))
    page.get_by_label("Folder", exact=True).fill(str(folder))
    expect(page.get_by_role("region", name="Estimate")).to_be_visible()
    page.get_by_role("button", name="Index", exact=True).click()
    if asks:
        expect(page.get_by_role("dialog")).to_contain_text(f"{files:,} files")
        assert made == []
        page.get_by_role("button", name="Index all of it").click()
    eventually(lambda: bool(page.evaluate("1")) and len(made) == 1, 30)
    expect(page.get_by_role("dialog")).to_have_count(0)

"""Which folders the page may choose from, and who may permit another one."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from api.places import subfolders
from api.stack.page_link import page_address, write_redirect
from tests.service import TOOLS, Service, checked
from worker.machine.named_folders import named_folders, named_folders_file
from worker.machine.page_links import (
    MAX_LINKS,
    MAX_SESSIONS,
    forget_links,
    is_session,
    new_link,
    open_session,
    page_links_file,
)

PLACES = "/api/places"


@pytest.fixture
def links(running: Service) -> Path:
    return page_links_file(running.home)


@pytest.fixture
def permitted(running: Service) -> Iterator[Path]:
    """The file of permitted folders, as it was afterwards."""
    file = named_folders_file(running.home)
    yield file
    file.unlink(missing_ok=True)


def opened(running: Service, links: Path) -> dict[str, str]:
    """The header of a session."""
    answer = running.client.post("/api/session", json={"link": new_link(links)})
    assert answer.status_code == 201, answer.text
    return {"Foldex-Session": answer.json()["session"]}


def inside(running: Service, path: Path | str, **query: Any) -> dict[str, Any]:
    return checked(running.client.get(PLACES, params={"path": str(path), **query}), 200)


def names(answer: dict[str, Any]) -> list[str]:
    return [item["name"] for item in answer["items"]]


def test_the_permitted_folders_come_first_and_then_what_lies_in_one(
    running: Service, root: Path, tmp_path: Path
) -> None:
    for name in ("b/deep", "a", ".hidden", "node_modules", "left-out", "\u00fc"):
        (root / name).mkdir(parents=True)
    (root / "file.md").write_text("no folder")
    (root / ".gitignore").write_text("left-out/\n")
    (root / "out").symlink_to(tmp_path)
    (root / "inside").symlink_to(root / "a")
    first = running.get(PLACES)
    assert (str(root.parent) in [item["path"] for item in first["items"]], first["path"]) == (True, None)
    shown = inside(running, f"{root}/")
    assert (names(shown), shown["path"], shown["next_cursor"]) == (["a", "b", "\u00fc"], str(root), None)
    assert names(inside(running, root / "b")) == ["deep"]
    # a link on the way is resolved, and its name is not shown
    assert inside(running, root / "inside")["path"] == str(root / "a")


@pytest.mark.parametrize("path", ["/", "/etc", "{root}/../..", "{root}/out", "{home}", "{root}/gone", "{root}/file.md"])
def test_nothing_outside_and_nothing_but_folders_is_listed(
    running: Service, root: Path, tmp_path: Path, path: str
) -> None:
    (root / "file.md").write_text("no folder")
    if not (root / "out").is_symlink():
        (root / "out").symlink_to(tmp_path)
    answer = running.client.get(PLACES, params={"path": path.format(root=root, home=running.home)})
    assert (answer.status_code, "items" in answer.json()) == (422, False), answer.text


@pytest.mark.parametrize("path", ["relative", "~", "a\0b", "/a\0b", "x" * 4097])
def test_what_is_no_path_is_refused(running: Service, path: str) -> None:
    assert running.client.get(PLACES, params={"path": path}).status_code == 422


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_many_folders_are_listed_in_pages(running: Service, root: Path, limit: int) -> None:
    many = root / f"many-{limit}"
    for number in range(3):
        (many / f"{number}").mkdir(parents=True)
    pages, cursor = list[list[str]](), None
    while not pages or cursor:
        page = inside(running, many, limit=limit, **({"cursor": cursor} if cursor else {}))
        pages.append(names(page))
        cursor = page["next_cursor"]
    assert [name for page in pages for name in page] == ["0", "1", "2"]
    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)


def test_a_page_ends_where_too_many_folders_are_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tests.helpers import HELPERS
    from worker.sources.kind import ContentAccess, SourceOptions

    for name in ("a", "b", "c", "d"):
        (tmp_path / name).mkdir()
    (tmp_path / ".gitignore").write_text("a\nb\n")

    def nothing() -> Any:
        raise NotImplementedError

    access = ContentAccess(
        "p", SourceOptions("off", tmp_path / "home", [tmp_path], None, None), nothing, nothing, HELPERS
    )
    for looked, first in ((2, ([], "b")), (3, (["c"], "c")), (4, (["c", "d"], None))):
        monkeypatch.setattr(subfolders, "MAX_LOOKED", looked)
        paths, after = subfolders.subfolders(access, str(tmp_path), "", 10, lambda _: True)
        assert ([Path(path).name for path in paths], after) == first
    monkeypatch.setattr(subfolders, "MAX_NAMES", 2)
    assert len(subfolders.subfolders(access, str(tmp_path), "", 10, lambda _: True)[0]) <= 2


def test_a_link_opens_one_session_however_many_use_it(running: Service, links: Path) -> None:
    link = new_link(links)
    assert stat.S_IMODE(links.stat().st_mode) == 0o600
    assert link not in links.read_text()

    def use(_: int) -> int:
        return running.client.post("/api/session", json={"link": link}).status_code

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(use, range(8))) == [201] + [403] * 7
    for wrong in ("", "wrong", link[:-1], f"{link}x", "\u00e9" * 10, "x" * 300):
        assert running.client.post("/api/session", json={"link": wrong}).status_code in {403, 422}


def test_a_session_permits_a_folder_and_nobody_else_does(
    running: Service, links: Path, permitted: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "a.md").write_text("# Tea")
    body = {"path": str(folder)}
    source = {"project_id": "p", "source": {"kind": "local", "path": str(folder)}}
    foreign = {"host": "rebound.example"}, {"origin": "http://other.example"}, {"sec-fetch-site": "cross-site"}
    session = opened(running, links)
    for headers in (
        {},
        {"Foldex-Session": "wrong"},
        {"Foldex-Session": new_link(links)},
        *({**session, **each} for each in foreign),
    ):
        refused = running.client.post(PLACES, json=body, headers=headers)
        assert refused.status_code == 403, headers
        assert running.client.get(PLACES, headers=headers).json().get("may_permit") is not True or "host" not in headers
    assert named_folders(permitted) == []
    assert running.client.post(TOOLS, json=source).status_code == 422
    for _ in range(2):
        answer = running.client.post(PLACES, json=body, headers=session)
        assert (answer.status_code, answer.json()) == (201, {"path": str(folder), "name": "mine"})
    assert json.loads(permitted.read_text()) == [str(folder)]
    assert running.client.post(TOOLS, json=source).status_code == 202
    assert running.client.get(PLACES, headers=session).json()["may_permit"] is True
    assert running.get(PLACES)["may_permit"] is False


def test_what_cannot_be_indexed_is_not_permitted(
    running: Service, links: Path, permitted: Path, root: Path, tmp_path: Path
) -> None:
    session = opened(running, links)
    (tmp_path / "file").write_text("no folder")
    wrong = (
        str(tmp_path / "gone"),
        str(tmp_path / "file"),
        str(running.home),
        f"{running.home}/run",
        "relative",
        "/a\0b",
        "",
    )
    for path in wrong:
        assert running.client.post(PLACES, json={"path": path}, headers=session).status_code == 422, path
    # what may be indexed already is not written down again
    assert running.client.post(PLACES, json={"path": str(root)}, headers=session).status_code == 201
    assert named_folders(permitted) == []


def test_a_new_start_ends_links_and_sessions(tmp_path: Path) -> None:
    file = page_links_file(tmp_path)
    assert open_session(file, "x") is None
    link, other = new_link(file), new_link(file)
    session = open_session(file, link)
    assert session is not None
    assert is_session(file, session)
    assert not is_session(file, other)
    forget_links(file)
    assert not is_session(file, session)
    assert open_session(file, other) is None


def test_a_browser_is_started_with_a_file_of_the_owner(tmp_path: Path) -> None:
    env = {"API_HOST": "127.0.0.1", "API_PORT": "8000", "AUTH": "off"}
    address = page_address(tmp_path, env)
    shown = write_redirect(tmp_path, address)
    file = Path(shown.removeprefix("file://"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert address in file.read_text()
    assert open_session(page_links_file(tmp_path), address.partition("#/?link=")[2]) is not None
    assert page_address(tmp_path, {**env, "AUTH": "on"}) == "http://127.0.0.1:8000/"


@pytest.mark.parametrize("damage", [b"", b"{", b'{"links": 3}', b"[]", b"\xff"])
def test_a_damaged_file_and_one_that_others_read_open_nothing(tmp_path: Path, damage: bytes) -> None:
    file = page_links_file(tmp_path)
    link, used = new_link(file), new_link(file)
    session = open_session(file, used)
    assert session is not None
    file.chmod(0o644)
    assert not is_session(file, session)
    assert open_session(file, link) is None
    file.chmod(0o600)
    file.write_bytes(damage)
    assert not is_session(file, session)


def test_the_oldest_links_and_sessions_are_forgotten(tmp_path: Path) -> None:
    file = page_links_file(tmp_path)
    made = [new_link(file) for _ in range(MAX_LINKS + 1)]
    assert open_session(file, made[0]) is None
    sessions = [open_session(file, link) for link in made[1:]]
    while len(sessions) <= MAX_SESSIONS:
        sessions.append(open_session(file, new_link(file)))
    assert [is_session(file, str(each)) for each in (sessions[0], sessions[1])] == [False, True]

"""How the page is served, and what its files may not hold."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from api.http import problems
from api.page import routes
from api.page.files import DIRECTORY, TYPES, PageFiles

#: Bytes of all files that a browser loads, without compression.
MAX_BYTES = 250_000
VENDOR = DIRECTORY / "vendor"
OWN = sorted(path for path in DIRECTORY.rglob("*") if path.suffix in {".js", ".html"} and path.parent != VENDOR)
#: What would make markup or code of a text.
AS_MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|__html")


@pytest.fixture
def client() -> TestClient:
    app = FastAPI()
    problems.install(app)
    app.include_router(routes.router)
    return TestClient(app)


def linked(client: TestClient) -> list[str]:
    """The addresses of all files that the page names."""
    return re.findall(r'(?:href|src)="(page/[^"]+)"', client.get("/").text)


def test_the_page_allows_nothing_but_its_own_files(client: TestClient) -> None:
    answer = client.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_every_file_is_linked_with_its_type_and_kept_forever(client: TestClient) -> None:
    links = linked(client)
    modules = {path.relative_to(DIRECTORY).as_posix() for path in DIRECTORY.rglob("*.js")}
    assert modules <= {link.split("/", 2)[2] for link in links}
    for link in links:
        answer = client.get(f"/{link}")
        assert answer.status_code == 200, link
        assert answer.headers["content-type"] == TYPES[Path(link).suffix]
        assert answer.headers["cache-control"].endswith("immutable")
        assert "content-security-policy" in answer.headers


def test_a_known_file_is_not_sent_again(client: TestClient) -> None:
    tag = client.get("/").headers["etag"]
    again = client.get("/", headers={"if-none-match": tag})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/", headers={"if-none-match": '"other"'}).status_code == 200


def test_files_are_compressed_for_those_who_accept_it(client: TestClient) -> None:
    link = next(link for link in linked(client) if link.endswith("parts.js"))
    plain = client.get(f"/{link}", headers={"accept-encoding": "identity"})
    packed = client.get(f"/{link}", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(plain.content) / 2
    assert packed.content == plain.content
    assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize("path", ["page/x/js/main.js", "page/{v}/index.html", "page/{v}/../routes.py", "page/{v}/"])
def test_no_other_file_is_served(client: TestClient, path: str) -> None:
    version = linked(client)[0].split("/")[1]
    answer = client.get("/" + path.replace("{v}", version))
    assert answer.status_code == 404
    assert answer.json()["code"] in {"not_found", "not found"}


def test_the_version_follows_the_content(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("{version} {modules}")
    (tmp_path / "a.js").write_text("1")
    before = PageFiles(tmp_path).version
    assert before == PageFiles(tmp_path).version
    assert before in PageFiles(tmp_path).index.content.decode()
    (tmp_path / "a.js").write_text("2")
    assert PageFiles(tmp_path).version != before


def test_the_page_is_light(client: TestClient) -> None:
    answers = [client.get("/"), *(client.get(f"/{link}") for link in dict.fromkeys(linked(client)))]
    assert sum(len(answer.content) for answer in answers) <= MAX_BYTES


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_no_text_becomes_markup_or_code(path: Path) -> None:
    text = path.read_text()
    assert AS_MARKUP.findall(text) == []
    assert "dangerously" not in text
    assert re.findall(r"""https?://(?!www\.w3\.org)""", text) == []


def test_vendored_files_are_those_that_were_checked() -> None:
    lines = [line.split() for line in (VENDOR / "SHA256SUMS").read_text().splitlines()]
    listed = {name: digest for digest, name in lines}
    present = {path.name for path in VENDOR.iterdir()} - {"README.md", "SHA256SUMS"}
    assert set(listed) == present
    assert {name: hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() for name in present} == listed
    assert {"LICENSE-htm.txt", "LICENSE-preact.txt"} <= present


def test_comments_and_indentation_are_not_sent(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("{version}{modules}")
    (tmp_path / "a.js").write_text('// why\nif (a) {\n  // so\n  b("// no comment"); // kept\n}\n')
    (tmp_path / "a.css").write_text("/* why\n */\na b,\nc > d {\n  margin: 0 1px;\n}\n")
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor" / "b.js").write_text("// as it is\n  c();\n")
    files = PageFiles(tmp_path)
    sent = {
        name: file.content.decode()
        for name in ("a.js", "a.css", "vendor/b.js")
        if (file := files.get(files.version, name))
    }
    assert sent == {
        "a.js": '\nif (a) {\n\nb("// no comment"); // kept\n}\n',
        "a.css": "\na b,c > d{margin:0 1px;}",
        "vendor/b.js": "// as it is\n  c();\n",
    }

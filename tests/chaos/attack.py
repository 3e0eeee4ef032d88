"""A hostile tenant: random bodies, headers, patterns, containers and links, and locks in the database.

It has a key of its own, a folder that it may change as it likes, and a connection to Postgres such as an administrator
or a frozen process has. It never touches what belongs to others.
"""

from __future__ import annotations

import io
import json
import random
import socket
import tarfile
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import httpx
import psycopg

from tests.service import TOOLS

#: Tables with rows of a project, and what finds them.
ROWS = {
    "search_tool": "project_id = %(project)s",
    "search_index": "project_id = %(project)s",
    "search_index_task": "index_id IN (SELECT id FROM search_index WHERE project_id = %(project)s)",
    "search_index_file": "index_id IN (SELECT id FROM search_index WHERE project_id = %(project)s)",
}
#: Longest time that a lock is held, and that a request waits for its answer.
LOCK_SECONDS, ANSWER_SECONDS = 12.0, 120.0
#: Opens archives and mail.
OPENED = {"containers": ["archives", "attachments"]}
LETTERS = ["a", "b", "*", "**", "?", "[ab]", "[!a]", "/", "a" * 20, "{a,b}", "\\", "[", "é", "!"]
EXPRESSIONS = ["a", "(a|aa)+", "(a*)*", "[^b]*", r"\w+", r"\b", ".*", "{1,99}", "$", "(", "[", r"\pL", "é", "x?", r"\Q"]


class Attacker:
    """Attacks at random until it is stopped. `faults` are answers that no caller may get."""

    def __init__(self, url: str, database_url: str, key: str, project: str, folder: Path, theirs: Path) -> None:
        self._url, self._database_url, self._key, self._project = url, database_url, key, project
        self._folder, self._theirs = folder, theirs
        self.faults: list[str] = []
        self.counts: dict[str, int] = {}
        self.tool = ""

    def run(self, seed: str, until: Callable[[], bool]) -> None:
        """Attack in this thread."""
        chance = random.Random(seed)
        kinds = (self._body, self._header, self._pattern, self._container, self._link, self._lock)
        with httpx.Client(base_url=self._url, timeout=ANSWER_SECONDS, trust_env=False) as client:
            client.headers["Authorization"] = f"Bearer {self._key}"
            while not until():
                kind = chance.choice(kinds)
                self.counts[kind.__name__] = self.counts.get(kind.__name__, 0) + 1
                # a refused connection, a closed one or a full disk is an answer to an attack
                with suppress(httpx.HTTPError, OSError, psycopg.Error):
                    kind(client, chance)

    def _send(self, client: httpx.Client, method: str, path: str, **sent: Any) -> httpx.Response:
        answer = client.request(method, path, **sent)
        is_named = (
            answer.headers.get("content-type", "").startswith("application/problem+json") and answer.json()["code"]
        )
        if answer.is_server_error and not is_named:
            self.faults.append(f"{method} {path} answered {answer.status_code} without a code: {answer.text[:300]}")
        if "theirsecret" in answer.text:
            self.faults.append(f"{method} {path} answered a text of another project: {answer.text[:300]}")
        return answer

    def _body(self, client: httpx.Client, chance: random.Random) -> None:
        size = chance.choice([10, 1_000, 100_000])
        content = chance.choice(
            [
                "[" * size,
                "[" + "[],".join([""] * size) + "[]]",
                '{"query": ' + '{"a":' * size,
                json.dumps({"query": "a " * size, "mode": "keyword", "top_k": 1000}),
                json.dumps({"query": "".join(map(chr, chance.choices(range(1, 0xD800), k=min(size, 9_000))))}),
                json.dumps({"query": "\u0301\u0316" * min(size // 2, 4_900), "pattern": "\u0301\u0316" * 4_900}),
                json.dumps({"name": "n", "type": "json", "content": dict.fromkeys(map(str, range(2 * size)), 1.5e300)}),
                json.dumps({f"k{number}": number for number in range(min(size, 20_000))}),
                '{"query": "' + "\\ud800" * size + '"}',
                "1" * size,
                "\0" * size,
            ]
        )
        paths = [f"{TOOLS}/{self.tool}/query", f"{TOOLS}/{self.tool}/grep", TOOLS, "/api/search", "/mcp"]
        self._send(
            client,
            "POST",
            chance.choice([*paths, f"/api/projects/{self._project}/nodes"]),
            content=content.encode(),
            headers={"Content-Type": "application/json", "Accept": "application/json, text/event-stream"},
        )

    def _header(self, client: httpx.Client, chance: random.Random) -> None:
        """Headers that are large, many or without an end, from connections that then do nothing for a while."""
        connections = []
        address = (client.base_url.host, client.base_url.port or 80)
        for _ in range(chance.choice([1, 5, 20])):
            connection = socket.create_connection(address, timeout=5)
            connections.append(connection)
            line = b"X-%d: %s\r\n" % (chance.randrange(9_999), b'a;=",' * chance.choice([1, 200, 5_000]))
            with suppress(OSError):
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n" + line * chance.choice([1, 50, 150]))
        time.sleep(chance.choice([0, 0.5, 3]))
        for connection in connections:
            connection.close()

    def _pattern(self, client: httpx.Client, chance: random.Random) -> None:
        glob = "".join(chance.choices(LETTERS, k=chance.choice([3, 20, 60])))[:1_000]
        expression = "".join(chance.choices(EXPRESSIONS, k=chance.choice([2, 10, 200])))
        match chance.randrange(3):
            case 0:
                body = {"query": "a", "mode": "keyword", "filters": {"path": glob}}
                self._send(client, "POST", f"{TOOLS}/{self.tool}/query", json=body)
            case 1:
                options = {"regex": True, "glob": chance.choice([glob, None]), "multiline": chance.random() < 0.3}
                self._send(client, "POST", f"{TOOLS}/{self.tool}/grep", json={"pattern": expression, **options})
            case _:
                (self._folder / ".gitignore").write_text("\n".join([f"{glob}b"] * chance.choice([1, 500])))
                self._estimate(client, config={"exclude": [glob] * chance.choice([1, 900]), **OPENED})

    def _container(self, client: httpx.Client, chance: random.Random) -> None:
        data = bytearray(chance.choice([_zip, _tar, _mail])(chance))
        for _ in range(chance.choice([0, 1, 20])):
            data[chance.randrange(len(data))] = chance.randrange(256)
        name = f"c{chance.randrange(20)}.{chance.choice(['zip', 'tar', 'tar.gz', 'eml', 'docx', 'epub'])}"
        if chance.random() < 0.5:
            (self._folder / name).write_bytes(data)
            self._estimate(client, config=OPENED)
            self._send(client, "POST", f"{TOOLS}/{self.tool}/reindex")
        else:
            uploads = f"/api/projects/{self._project}/uploads"
            self._send(client, "POST", uploads, files={"files": (name, bytes(data))}, data={"index": "true"})

    def _link(self, client: httpx.Client, chance: random.Random) -> None:
        """Swap a file or directory for a link to another project's, while it is read."""
        place = self._folder / f"swapped{chance.randrange(3)}"
        if place.is_symlink() or place.is_file():
            place.unlink()
        elif place.is_dir():
            place.rmdir()
        match chance.randrange(4):
            case 0:
                place.symlink_to(self._theirs)
            case 1:
                place.symlink_to(self._theirs / "a.md")
            case 2:
                place.mkdir()
            case _:
                place.write_text("mine")
        self._send(client, "POST", f"{TOOLS}/{self.tool}/grep", json={"pattern": "secret", "path": place.name})
        self._send(client, "POST", f"{TOOLS}/{self.tool}/reindex")

    def _lock(self, _client: httpx.Client, chance: random.Random) -> None:
        """Hold rows of the own project in a transaction that does nothing."""
        table, condition = chance.choice(list(ROWS.items()))
        with psycopg.connect(self._database_url, application_name="a person's session") as connection:
            found = f"SELECT 1 FROM {table} WHERE {condition} LIMIT 50 FOR UPDATE SKIP LOCKED"
            connection.execute(found.encode(), {"project": self._project})
            time.sleep(chance.uniform(0, LOCK_SECONDS))
            connection.rollback()

    def _estimate(self, client: httpx.Client, **more: Any) -> None:
        source = {"kind": "local", "path": str(self._folder)}
        body = {"project_id": self._project, "source": source, "dry_run": True, **more}
        self._send(client, "POST", TOOLS, json=body)


def _zip(chance: random.Random) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(chance.choice([1, 5, 3_000])):
            archive.writestr(
                f"{'../' * chance.randrange(3)}{number}.md", b"a" * chance.choice([0, 10, 100_000][: 2 + (number < 9)])
            )
    return held.getvalue()


def _tar(chance: random.Random) -> bytes:
    held = io.BytesIO()
    mode: Literal["w", "w:gz"] = chance.choice(["w", "w:gz"])
    with tarfile.open(fileobj=held, mode=mode, format=tarfile.PAX_FORMAT) as archive:
        for number in range(chance.choice([1, 5, 500])):
            member = tarfile.TarInfo(f"{number}.md")
            member.size = 10
            member.pax_headers = {"mtime": "9" * chance.choice([1, 4_000, 60_000][: 2 + (number < 3)])}
            archive.addfile(member, io.BytesIO(b"a" * 10))
    return held.getvalue()


def _mail(chance: random.Random) -> bytes:
    name = chance.choice([";", "=?utf-8?q?", "(", '"', "%41"]) * chance.choice([1, 5_000, 40_000])
    return (
        f'Subject: {name}\r\nContent-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\n'
        f"Content-Disposition: attachment; filename={name}\r\n\r\ntext\r\n--b--\r\n"
    ).encode()

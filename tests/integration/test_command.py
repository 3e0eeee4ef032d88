"""`foldex`, the command, against a running service: what each verb prints, and its exit status."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from signal import SIGCONT, SIGINT, SIGSTOP
from typing import Any

import pytest
from click.testing import CliRunner

from api.cli import connection
from api.cli.commands import main
from api.cli.connection import Connection
from tests.service import NewService, Service, another_api, eventually, with_one_worker
from worker.settings import LOCAL_MODEL

HANDBOOK = (
    "# Handbook\n\n## Holidays\n\nEverybody has thirty days of holiday a year.\n\n## Expenses\n\nSend receipts.\n"
)
CODE = "def make_token(user):\n    return sign(user)\n\n\ndef check_token(token):\n    return verify(token)\n"


#: The command as a terminal starts it: a shell's background jobs, such as this test may be one of, ignore Ctrl-C.
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from foldex.__main__ import run
run()
"""


@pytest.fixture(scope="module")
def running(new_service: NewService, root: Path) -> Iterator[Service]:
    with new_service(with_one_worker, DEFAULT_EMBEDDING_MODEL=LOCAL_MODEL, LOCAL_SOURCE_ROOTS=str(root)) as started:
        yield started


@pytest.fixture(scope="module")
def docs(root: Path, running: Service) -> Path:
    """An indexed folder."""
    folder = root / "docs"
    (folder / "src").mkdir(parents=True)
    (folder / "handbook.md").write_text(HANDBOOK)
    (folder / "src" / "tokens.py").write_text(CODE)
    (folder / "broken.json").write_text('{"a": ')
    done = foldex(running, "index", str(folder))
    assert done.returncode == 0, done.stderr
    assert f"{folder}: ready, 2 files" in done.stdout
    return folder


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def environment(running: Service, **env: str) -> dict[str, str]:
    return {**os.environ, "FOLDEX_HOME": f"{running.home}/none", "FOLDEX_URL": str(running.client.base_url), **env}


def foldex(running: Service, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Done:
    """Run the command in this process, which saves its start."""
    with chdir(cwd or Path.cwd()):
        ended = CliRunner().invoke(main, arguments, env=environment(running, **(env or {})))
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    return Done(ended.exit_code, ended.stdout, ended.stderr)


def refused(done: Done, status: int = 2) -> str:
    """The one sentence of an error. Nothing else is printed."""
    assert (done.returncode, done.stdout) == (status, ""), (done.stdout, done.stderr)
    assert done.stderr.startswith("Error: ")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.rstrip().endswith((".", "?"))
    return done.stderr


def test_a_search_prints_the_place_first(running: Service, docs: Path) -> None:
    done = foldex(running, "search", "how much vacation do I get", cwd=docs)
    assert done.returncode == 0
    first = done.stdout.splitlines()[0]
    assert first.startswith("handbook.md:")
    assert "Holidays" in first
    assert "\x1b" not in done.stdout
    elsewhere = foldex(running, "search", "vacation", str(docs), "--top-k", "1")
    assert elsewhere.stdout.startswith(f"{docs}/handbook.md:")


def test_a_search_below_a_folder_or_a_file_finds_nothing_else(running: Service, docs: Path) -> None:
    for where in ("src", "src/tokens.py"):
        done = foldex(running, "search", "vacation", where, "--json", cwd=docs)
        assert {hit["file_path"] for hit in json.loads(done.stdout)["results"]} == {"src/tokens.py"}
    done = foldex(running, "search", "vacation", "--path", "*.md", "--json", cwd=docs)
    assert {hit["file_path"] for hit in json.loads(done.stdout)["results"]} == {"handbook.md"}
    nothing = foldex(running, "search", "vacation", "--types", "pdf", cwd=docs)
    assert (nothing.returncode, nothing.stdout) == (1, "")


def test_a_search_loads_no_slow_library(running: Service, docs: Path) -> None:
    code = "import sys, atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); sys.argv[1:] = {}; {}"
    run = "from foldex.__main__ import run; run()"
    for arguments in (["search", "vacation", str(docs)], ["grep", "holiday", str(docs)], ["tools"], ["--help"]):
        done = subprocess.run(
            [sys.executable, "-c", code.format(arguments, run)],
            env=environment(running),
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout
        assert not {"httpx", "pydantic", "rich", "psycopg", "worker.settings"} & set(done.stderr.split())


def test_without_a_quick_answer_the_client_library_gives_the_same(
    running: Service, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers() -> list[Any]:
        verbs = (
            ("search", "vacation", "-C", "2"),
            ("search", "token", "src", "--json"),
            ("grep", "token", "src"),
            ("tools",),
        )
        printed = [foldex(running, *verb, cwd=docs).stdout for verb in verbs]
        return [
            json.loads(re.sub(r'"took_ms": [0-9.]+', '"x": 0', text)) if text[0] == "{" else text for text in printed
        ]

    quick = answers()
    monkeypatch.setattr(Connection, "call_locally", lambda *_: None)
    assert answers() == quick


def test_grep_prints_lines_as_ripgrep(running: Service, docs: Path) -> None:
    done = foldex(running, "grep", r"def \w+_token", cwd=docs)
    assert done.stdout.splitlines() == [
        "src/tokens.py:1:def make_token(user):",
        "src/tokens.py:5:def check_token(token):",
    ]
    around = foldex(running, "grep", "-i", "DEF MAKE", "src", "-C", "1", cwd=docs)
    assert around.stdout.splitlines() == [
        "src/tokens.py:1:def make_token(user):",
        "src/tokens.py-2-    return sign(user)",
    ]
    assert foldex(running, "grep", "DEF MAKE", cwd=docs).returncode == 1
    assert foldex(running, "grep", "-F", "make_token(", "handbook.md", cwd=docs).returncode == 1


def test_symbols_by_name_and_by_prefix(running: Service, docs: Path) -> None:
    done = foldex(running, "symbols", "make_token", cwd=docs)
    assert done.stdout == "src/tokens.py:1: function def make_token(user)\n"
    by_prefix = foldex(running, "symbols", "--prefix", "check", "src", "--json", cwd=docs)
    assert [item["name"] for item in json.loads(by_prefix.stdout)["items"]] == ["check_token"]
    assert foldex(running, "symbols", "missing", cwd=docs).returncode == 1


def test_a_tool_is_named_by_id_name_or_path(running: Service, docs: Path) -> None:
    listed = json.loads(foldex(running, "tools", "--json").stdout)["items"]
    tool_id = next(item["tool_id"] for item in listed if item["name"] == "docs")
    for word in (tool_id, "docs", str(docs), ".", "../docs"):
        done = foldex(running, "status", word, "--json", cwd=docs)
        assert json.loads(done.stdout)["tool_id"] == tool_id, word
    assert "docs" in foldex(running, "status").stdout
    for verb in ("retry", "reindex"):
        done = foldex(running, verb, "docs", "--wait")
        assert (done.returncode, tool_id in done.stdout) == (0, True), done.stderr


def test_files_tell_why(running: Service, docs: Path) -> None:
    done = foldex(running, "files", "--failed", cwd=docs)
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert done.stdout.startswith("broken.json: failed (parse_failed): ")
    assert foldex(running, "files", "--skipped", cwd=docs).returncode == 1
    assert len(json.loads(foldex(running, "files", "docs", "--json").stdout)["items"]) == 3


def test_a_second_index_of_a_folder_is_the_same_tool(running: Service, docs: Path) -> None:
    before = foldex(running, "tools").stdout
    done = foldex(running, "index", str(docs), "--config", "exclude=*.tmp,*.bak", "--name", "docs")
    assert done.returncode == 0, done.stderr
    assert foldex(running, "tools").stdout == before
    tool = next(
        tool for tool in json.loads(foldex(running, "tools", "--json").stdout)["items"] if tool["name"] == "docs"
    )
    assert tool["config"]["exclude"] == ["*.tmp", "*.bak"]


def test_a_folder_without_a_tool_is_indexed_only_with_a_yes(running: Service, root: Path) -> None:
    folder = root / "fresh"
    folder.mkdir()
    (folder / "notes.md").write_text("Leases are renewed every two seconds.\n")
    assert "--yes" in refused(foldex(running, "search", "renewal", cwd=folder))
    assert str(folder) not in foldex(running, "tools").stdout
    done = foldex(running, "search", "renewal of leases", "--yes", cwd=folder)
    assert (done.returncode, done.stdout.split(":")[0]) == (0, "notes.md"), done.stderr
    deleted = foldex(running, "delete", "fresh", "--yes")
    assert deleted.returncode == 0
    assert (folder / "notes.md").exists()
    eventually(lambda: str(folder) not in foldex(running, "tools").stdout, 20)


VERBS = (
    ("index", "."), ("search", "x"), ("grep", "x"), ("symbols", "x"), ("status",), ("files",), ("tools",), ("models",),
    ("tree", "build", "docs"), ("tree", "status", "docs"), ("tree", "show", "docs"),
    ("retry", "docs"), ("reindex", "docs"), ("cancel", "docs"), ("delete", "docs", "--yes"),
)  # fmt: skip # a line each says nothing


@pytest.fixture(scope="module")
def guarded(running: Service) -> Iterator[Service]:
    with another_api(running, AUTH="on") as api:
        yield api


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_bad_input_of_every_verb(
    running: Service,
    guarded: Service,
    docs: Path,
    root: Path,
    verb: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # a service that is not there is asked once
    monkeypatch.setattr(connection, "RETRIES", 0)
    assert "--key" in refused(foldex(guarded, *verb, "--key", "wrong", cwd=docs))
    assert "--key" in refused(foldex(running, *verb, "--key", "", cwd=docs))
    assert "--server" in refused(foldex(running, *verb, "--server", "http://127.0.0.1:1", cwd=docs))
    assert "--server" in refused(foldex(running, *verb, "--server", "nonsense", cwd=docs))
    if len(verb) > 1 and verb[0] in {"retry", "reindex", "cancel", "delete"}:
        assert "foldex tools" in refused(foldex(running, verb[0], "unknown", *verb[2:]))
    if verb[0] in {"search", "grep", "symbols"}:
        for nowhere in ("unknown", str(root / "vanished"), "docs/vanished"):
            assert "tools" in refused(foldex(running, *verb, nowhere, cwd=root)), nowhere
    if verb[0] in {"status", "files"}:
        assert "foldex tools" in refused(foldex(running, verb[0], "unknown"))


def test_a_folder_that_cannot_be_indexed(running: Service, docs: Path, root: Path, tmp_path: Path) -> None:
    assert "does not exist" in refused(foldex(running, "index", str(root / "vanished")))
    assert "is a file" in refused(foldex(running, "index", str(docs / "handbook.md")))
    assert "LOCAL_SOURCE_ROOTS" in refused(foldex(running, "index", str(tmp_path)))
    assert "--config" in refused(foldex(running, "index", str(docs), "--config", "watch"))
    assert "no_such_field" in refused(foldex(running, "index", str(docs), "--config", "no_such_field=1"))


def test_without_a_stack_nothing_but_indexing_and_searching_starts_one(running: Service, tmp_path: Path) -> None:
    env = {"FOLDEX_URL": "", "FOLDEX_HOME": str(tmp_path / "home")}
    for verb in (("status",), ("tools",), ("retry", "x"), ("doctor",)):
        done = foldex(running, *verb, env=env)
        assert done.returncode == 2
        assert "foldex up" in done.stdout + done.stderr
    assert not (tmp_path / "home").exists()
    assert foldex(running, "down", env=env).returncode == 1


def test_interrupting_a_wait_leaves_the_indexing_alone(running: Service, root: Path) -> None:
    folder = root / "long"
    folder.mkdir()
    (folder / "a.md").write_text("Words.\n")
    worker = running.processes["worker-fast"]
    # so that nothing is indexed before the signal
    worker.signal(SIGSTOP)
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, "index", str(folder)],
        env=environment(running),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            eventually(lambda: str(folder) in foldex(running, "tools").stdout, 30)
            process.send_signal(SIGINT)
            printed, told = process.communicate(timeout=30)
        finally:
            process.kill()
            worker.signal(SIGCONT)
    assert (process.returncode, printed) == (130, ""), told
    assert "Indexing goes on" in told
    assert "Traceback" not in told
    assert foldex(running, "status", str(folder), "--watch").returncode == 0


def test_an_estimate_indexes_nothing(running: Service, root: Path) -> None:
    folder = root / "estimated"
    folder.mkdir()
    (folder / "a.md").write_text("Some words to count.\n" * 50)
    done = foldex(running, "estimate", str(folder))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 file, 0.0 MB\n")
    assert f"Cost with {LOCAL_MODEL}: $0.0000" in done.stdout
    assert foldex(running, "index", str(folder), "--dry-run").stdout == done.stdout
    assert json.loads(foldex(running, "estimate", str(folder), "--json").stdout)["tokens"]["expected"] > 100
    assert str(folder) not in foldex(running, "tools").stdout
    assert "does not exist" in refused(foldex(running, "estimate", str(root / "vanished")))


def test_models(running: Service) -> None:
    done = foldex(running, "models", "--check")
    assert done.returncode == 0
    assert f"{LOCAL_MODEL}  embedding (default)  384 dimensions" in done.stdout
    assert "answers" in done.stdout
    listed = json.loads(foldex(running, "models", "--json").stdout)["items"]
    assert [model["model"] for model in listed if model["default"]] == [LOCAL_MODEL]


def test_open_shows_the_page_in_a_browser(running: Service, tmp_path: Path) -> None:
    opened, address = tmp_path / "opened", f"http://127.0.0.1:{running.env['API_PORT']}/"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o700)
    env = {"BROWSER": f"{browser} %s"}
    assert foldex(running, "open", "--print", env=env).stdout == f"{address}\n"
    assert not opened.exists()
    assert foldex(running, "open", env=env).stdout == f"{address}\n"
    assert opened.read_text() == f"{address}\n"
    assert running.client.get("/").headers["content-type"].startswith("text/html")
    assert "does not answer" in refused(foldex(running, "open", "--server", "http://127.0.0.1:9", env=env))


def test_doctor_names_what_is_wrong(running: Service, docs: Path, root: Path) -> None:
    gone = root / "gone"
    gone.mkdir()
    (gone / "a.md").write_text("Words.\n")
    assert foldex(running, "index", str(gone)).returncode == 0
    assert foldex(running, "doctor").returncode == 0
    (gone / "a.md").unlink()
    gone.rmdir()
    done = foldex(running, "doctor")
    assert done.returncode == 2
    wrong = [line for line in done.stdout.splitlines() if line.startswith("wrong")]
    assert len(wrong) == 1
    assert f"folder {gone}" in wrong[0]
    assert "foldex delete" in wrong[0]
    checks = json.loads(foldex(running, "doctor", "--json").stdout)["items"]
    assert [check["ok"] for check in checks].count(False) == 1

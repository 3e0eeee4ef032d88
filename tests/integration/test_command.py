"""`foldex`, the command, against a running service: what each verb prints, and its exit status."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from signal import SIGCONT, SIGINT, SIGSTOP
from typing import Any
from uuid import uuid4

import click
import pytest

from api.cli.commands import main
from api.cli.invocation import VerbFailed
from api.cli.service import connection
from api.cli.service.connection import Connection
from api.cli.service.tool_lookup import check_folder
from tests.integration.command_documents import DOCUMENTS, TREE_DOCUMENTS, items_of
from tests.integration.commanding import INTERRUPTIBLE, environment, foldex, process, refused
from tests.service import TOOLS, Service, another_api, checked, eventually
from worker.settings import LOCAL_MODEL

HANDBOOK = (
    "# Handbook\n\n## Holidays\n\nEverybody has thirty days of holiday a year.\n\n## Expenses\n\nSend receipts.\n"
)
CODE = "def make_token(user):\n    return sign(user)\n\n\ndef check_token(token):\n    return verify(token)\n"
SESSION = "\n\nclass Session:\n    def renew(self):\n        return fetch(self)\n"


@pytest.fixture(scope="module")
def docs(root: Path, running: Service) -> Path:
    """An indexed folder."""
    folder = root / "docs"
    (folder / "src").mkdir(parents=True)
    (folder / "handbook.md").write_text(HANDBOOK)
    (folder / "src" / "tokens.py").write_text(CODE + SESSION)
    (folder / "broken.pdf").write_text("%PDF-1.7")
    done = foldex(running, "index", str(folder))
    assert done.returncode == 0, done.stderr
    assert f"{folder}: ready, 2 files" in done.stdout
    return folder


def test_a_search_prints_the_place_first(running: Service, docs: Path) -> None:
    done = foldex(running, "search", "how much vacation do I get", cwd=docs)
    assert done.returncode == 0
    first = done.stdout.splitlines()[0]
    assert first.startswith("handbook.md:")
    assert "Holidays" in first
    assert "\x1b" not in done.stdout
    elsewhere = foldex(running, "search", "vacation", str(docs), "--top-k", "1")
    assert elsewhere.stdout.startswith(f"{docs}/handbook.md:")


def test_a_search_says_that_nothing_fits_but_not_of_other_words(running: Service, docs: Path) -> None:
    listed = json.loads(foldex(running, "tools", "--json").stdout)["items"]
    tool = next(item["tool_id"] for item in listed if item["source"].get("path") == str(docs))

    def answered(query: str, rerank: str = "boost") -> tuple[list[str], bool]:
        answer = running.post(f"{TOOLS}/{tool}/query", {"query": query, "rerank": rerank}, 200)
        return [note["code"] for note in answer["notes"]], answer["calibrated"]

    assert answered("how much vacation do I get") == ([], True)
    assert answered("banana smoothie recipe") == (["nothing_fits_well"], True)
    assert answered("how much vacation do I get", "none") == ([], False)


def test_scores_over_several_tools_are_no_chances_but_those_of_each_are(running: Service, docs: Path) -> None:
    listed = json.loads(foldex(running, "tools", "--json").stdout)["items"]
    tool = next(item for item in listed if item["source"].get("path") == str(docs))
    asked = {"project_id": tool["project_id"], "tool_ids": [tool["tool_id"]], "query": "vacation"}
    for rerank, are_chances in (("boost", True), ("none", False)):
        answer = running.post("/api/search", {**asked, "rerank": rerank}, 200)
        assert (answer["calibrated"], [each["calibrated"] for each in answer["tools"]]) == (False, [are_chances])


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
        assert not {"httpx", "pydantic", "rich", "psycopg", "worker.settings", "mcp"} & set(done.stderr.split())


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
    assert "There may be more hits" in foldex(running, "grep", "token", "--limit", "1", cwd=docs).stderr


def test_symbols_by_name_and_by_prefix(running: Service, docs: Path) -> None:
    done = foldex(running, "symbols", "make_token", cwd=docs)
    assert done.stdout == "src/tokens.py:1: function def make_token(user)\n"
    done = foldex(running, "symbols", "Session", cwd=docs)
    assert done.stdout == "src/tokens.py:9: class Session\n"
    by_prefix = foldex(running, "symbols", "--prefix", "check", "src", "--json", cwd=docs)
    assert [item["name"] for item in json.loads(by_prefix.stdout)["items"]] == ["check_token"]
    done = foldex(running, "symbols", "missing", cwd=docs)
    assert (done.returncode, done.stderr) == (1, "No definition is called missing here.\n")


def test_callers_callees_and_impact_are_printed(running: Service, docs: Path) -> None:
    done = foldex(running, "callers", "sign", cwd=docs)
    assert done.stdout == "src/tokens.py:2: resolved make_token\n"
    done = foldex(running, "callees", "make_token", "src", cwd=docs)
    assert done.stdout == "outside: resolved sign\n"
    done = foldex(running, "impact", "make_token", cwd=docs)
    assert done.stdout.splitlines()[0] == "src/tokens.py:1: definition def make_token(user)"
    for verb in ("callers", "callees", "impact"):
        done = foldex(running, verb, "missing", cwd=docs)
        assert (done.returncode, done.stderr) == (1, "No definition is called missing here.\n")
    done = foldex(running, "callers", "make_token", cwd=docs)
    assert (done.returncode, done.stderr) == (1, "Nothing calls make_token here.\n")
    assert foldex(running, "callers", "fetch", cwd=docs).stdout == "src/tokens.py:11: resolved Session.renew\n"


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


def test_a_cancel_of_what_has_ended_says_that_nothing_runs(running: Service, docs: Path) -> None:
    running.wait(json.loads(foldex(running, "status", "docs", "--json").stdout)["tool_id"])
    done = foldex(running, "cancel", "docs")
    assert (done.returncode, done.stdout) == (0, "Nothing runs: the last run of docs ended as ready.\n")
    assert json.loads(foldex(running, "cancel", "docs", "--json").stdout)["status"] == "ready"


def test_all_tools_are_indexed_again_at_once(running: Service, docs: Path, root: Path) -> None:
    project = f"all-{uuid4().hex[:8]}"
    for name in ("one", "two"):
        (root / project / name).mkdir(parents=True)
        (root / project / name / "a.md").write_text(f"# {name}\n")
    source = {"kind": "local", "path": str(root / project / "one")}
    made = [running.tool(project=project, source=source), running.tool(project=project, source=source, name="twin")]
    made.append(running.tool(project=project, source={**source, "path": str(root / project / "two")}))
    before = {tool: running.wait(tool)["task_id"] for tool in made}
    answer = running.post(f"/api/projects/{project}/reindex", {"full": True})
    assert [state["tool_id"] for state in answer["items"]] == made
    # the two that share an index share its one run
    tasks = {state["tool_id"]: (state["task_id"], state["rerun"]) for state in answer["items"]}
    assert tasks[made[0]] == tasks[made[1]]
    assert not any(task in before.values() or rerun for task, rerun in tasks.values())
    for tool in made:
        running.wait(tool)
    listed, cursor = list[str](), ""
    while cursor is not None:
        page = checked(
            running.client.post(f"/api/projects/{project}/reindex", params={"cursor": cursor, "limit": 1}), 202
        )
        listed += [state["tool_id"] for state in page["items"]]
        assert len(listed) <= len(made)
        cursor = page["next_cursor"]
    assert listed == made
    for tool in made:
        running.wait(tool)
    done = foldex(running, "reindex", "--all", "--project", project, "--wait", "--json")
    assert {state["tool_id"]: state["status"] for state in json.loads(done.stdout)["items"]} == dict.fromkeys(
        made, "ready"
    )
    assert "Name one tool" in refused(foldex(running, "reindex"))
    assert "Name one tool" in refused(foldex(running, "reindex", "docs", "--all"))
    assert "give --full too" in refused(foldex(running, "reindex", "docs", "--renew-text"))
    assert "A dry run" in refused(foldex(running, "reindex", "--all", "--dry-run"))
    for option in ("--wait", "--allow-removals"):
        assert "leave out" in refused(foldex(running, "reindex", made[0], "--dry-run", option))
    told = foldex(running, "reindex", made[0], "--full", "--renew-text", "--dry-run")
    assert (told.returncode, told.stdout.splitlines()[-1]) == (0, "Nothing is to be embedded, so it costs nothing.")
    assert "nothing is renewed" in told.stderr
    assert checked(running.client.post("/api/projects/nobody/reindex"), 404)["code"] == "not_found"


def test_files_tell_why(running: Service, docs: Path) -> None:
    done = foldex(running, "files", "--failed", cwd=docs)
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert done.stdout.startswith("broken.pdf: failed (parse_failed): ")
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


def test_a_folder_around_one_that_is_indexed_has_a_tool_of_its_own(running: Service, root: Path) -> None:
    inner = root / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / "notes.md").write_text("Leases are renewed every two seconds.\n")
    for folder in (inner, inner.parent):
        assert f"{folder}: ready, 1 file" in foldex(running, "index", str(folder)).stdout
    for name in ("inner", "outer"):
        assert foldex(running, "delete", name, "--yes").stdout == f"Deleted {name}.\n"


def test_a_folder_without_a_tool_is_indexed_only_with_a_yes(running: Service, root: Path) -> None:
    folder = root / "fresh"
    folder.mkdir()
    (folder / "notes.md").write_text("Leases are renewed every two seconds.\n")
    assert "--yes" in refused(foldex(running, "search", "renewal", ".", cwd=folder))
    assert str(folder) not in foldex(running, "tools").stdout
    done = foldex(running, "search", "renewal of leases", "--yes", cwd=folder)
    assert (done.returncode, done.stdout.split(":")[0]) == (0, "notes.md"), done.stderr
    deleted = foldex(running, "delete", "fresh", "--yes")
    assert (deleted.returncode, deleted.stdout) == (0, "Deleted fresh.\n")
    assert (folder / "notes.md").exists()
    eventually(lambda: str(folder) not in foldex(running, "tools").stdout, 20)


VERBS = (
    ("index", "."), ("estimate", "."), ("search", "x"), ("grep", "x"), ("symbols", "x"), ("callers", "x"), ("outline",),
    ("callees", "x"), ("impact", "x"),
    ("status",), ("files",), ("tools",), ("models",), ("doctor",), ("open", "--print"),
    ("tree", "build", "docs"), ("tree", "status", "docs"), ("tree", "show", "docs"),
    ("retry", "docs"), ("reindex", "docs"), ("cancel", "docs"), ("delete", "docs", "--yes"),
)  # fmt: skip # a line each says nothing


def test_the_table_has_every_verb() -> None:
    groups = {name: command.commands for name, command in main.commands.items() if isinstance(command, click.Group)}
    commands = {
        **main.commands,
        **{f"{name} {sub}": each for name, subs in groups.items() for sub, each in subs.items()},
    }
    verbs = {name for name, command in commands.items() if {"server", "as_json"} <= {p.name for p in command.params}}
    assert {" ".join(verb[: 2 if verb[0] in groups else 1]) for verb in VERBS} == verbs


def test_a_verb_that_speaks_its_own_protocol_prints_no_json() -> None:
    mcp = main.commands["mcp"]
    assert isinstance(mcp, click.Group)
    names = {parameter.name for parameter in mcp.commands["serve"].params}
    assert names >= {"server", "key", "project"}
    assert "as_json" not in names


@pytest.mark.parametrize("verb", DOCUMENTS, ids=" ".join)
def test_json_has_the_fields_of_the_client_library(
    running: Service, docs: Path, root: Path, verb: tuple[str, ...]
) -> None:
    if verb[0] == "delete":
        (root / "brief").mkdir()
        assert foldex(running, "index", str(root / "brief")).returncode == 0
    done = foldex(running, *verb, "--json", cwd=docs)
    found = items_of(done.stdout, DOCUMENTS[verb])
    is_empty = not found or [] in [getattr(found[0], name, None) for name in ("results", "hits", "items")]
    assert done.returncode == is_empty, done.stderr


def test_every_verb_has_a_document() -> None:
    named = {verb[0] for verb in DOCUMENTS} | {" ".join(verb) for verb in TREE_DOCUMENTS}
    assert {" ".join(verb[: 1 + (verb[0] == "tree")]) for verb in VERBS} == named


def test_names_of_files_cannot_begin_lines_or_steer_a_terminal(running: Service, root: Path) -> None:
    folder = root / "odd"
    folder.mkdir()
    for name in (b"two\nlines.md", b"esc\x1b[31m.md", b"caf\xe9.md", "rtl\u202e.md".encode(), "日本.md".encode()):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_text("# Tide\n\nIt rises at noon.\n")
    assert foldex(running, "index", str(folder)).returncode == 0
    done = foldex(running, "grep", "rises", cwd=folder)
    shown = ["caf\\xe9.md", "esc\ufffd[31m.md", "rtl\ufffd.md", "two\ufffdlines.md", "日本.md"]
    assert done.stdout.splitlines() == [f"{name}:3:It rises at noon." for name in shown]
    # a name that is no text is found by its bytes
    below = foldex(running, "grep", "rises", os.fsdecode(b"caf\xe9.md"), cwd=folder)
    assert (below.returncode, below.stdout) == (0, "caf\\xe9.md:3:It rises at noon.\n"), below.stderr
    # an encoding that lacks a character is no reason to fail
    for encoding, seen in (("latin-1", "\\u65e5\\u672c.md"), ("utf-8", "日本.md")):
        env = environment(running, PYTHONIOENCODING=encoding)
        printed = process(running, "files", str(folder), "-q", "日本", env=env, encoding="utf-8")
        assert (printed.returncode, printed.stdout) == (0, f"{folder}/{seen}: indexed, 1 chunk\n"), printed.stderr
        listed = process(running, "files", str(folder), "-q", "日本", "--json", env=env, encoding="utf-8")
        assert json.loads(listed.stdout)["items"][0]["file_name"] == "日本.md"


def test_arguments_that_are_no_text_are_refused(running: Service, docs: Path, root: Path) -> None:
    wrong = os.fsdecode(b"caf\xe9")
    (root / wrong).mkdir()
    for arguments in (
        ("search", wrong), ("grep", wrong), ("symbols", wrong), ("files", "-q", wrong), ("tools", "--project", wrong),
        ("index", ".", "--name", wrong), ("index", ".", "--config", f"exclude={wrong}"), ("index", str(root / wrong)),
        ("estimate", str(root / wrong)),
    ):  # fmt: skip # a line each says nothing
        assert "UTF-8" in refused(foldex(running, *arguments, cwd=docs)), arguments


def test_a_reader_that_leaves_and_a_full_disk(running: Service, docs: Path) -> None:
    for arguments in (("grep", ".", str(docs)), ("files", str(docs), "--json"), ("--help",)):
        reading, writing = os.pipe()
        os.close(reading)
        done = process(running, *arguments, stdout=writing)
        os.close(writing)
        # as ripgrep: the reader has what it wants
        assert (done.returncode, done.stderr) == (0, "")
        with Path("/dev/full").open("w") as full:
            done = process(running, *arguments, stdout=full)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert "No space left" in done.stderr


def test_closed_streams_and_a_directory_that_is_gone(running: Service, docs: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "foldex", "search", "vacation", str(tmp_path)]
    closed = ["sh", "-c", 'exec "$@" <&- 2>&-', "sh", *command]
    done = subprocess.run(closed, env=environment(running), stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    gone = tmp_path / "gone"
    gone.mkdir()
    with chdir(gone):
        gone.rmdir()
        assert "no longer exists" in refused(foldex(running, "search", "x"))
        assert foldex(running, "tools").returncode == 0
        assert str(docs) in foldex(running, "grep", "holiday", str(docs)).stdout


def test_a_shell_completes_tools_and_starts_nothing(running: Service, docs: Path, tmp_path: Path) -> None:
    tools = json.loads(foldex(running, "tools", "--json").stdout)["items"]
    tool_id = next(tool["tool_id"] for tool in tools if tool["name"] == "docs")

    def completed(*words: str, **env: str) -> set[str]:
        given = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_FOLDEX_COMPLETE": "bash_complete"}
        done = process(running, env=environment(running, **given, **env))
        assert done.stderr == ""
        return {line.removeprefix("plain,") for line in done.stdout.splitlines() if line.startswith("plain,")}

    assert completed("foldex", "status", "do") == {"docs"}
    assert completed("foldex", "tree", "show", tool_id[:9]) == {tool_id}
    # as it was begun, also below the user's own directory
    home = str(docs.parent)
    assert str(docs) in completed("foldex", "search", "query", f"{home}/", HOME=home)
    assert f"~/{docs.name}" in completed("foldex", "search", "query", "~/", HOME=home)
    assert "docs" in completed("foldex", "index", "")
    new = tmp_path / "home"
    assert completed("foldex", "status", "do", FOLDEX_URL="", FOLDEX_HOME=str(new)) == set()
    assert completed("foldex", "status", "do", FOLDEX_URL="http://127.0.0.1:1") == set()
    assert not new.exists()


def test_a_folder_that_may_not_be_listed(tmp_path: Path) -> None:
    tmp_path.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        with pytest.raises(VerbFailed, match=r"cannot be read .*name a folder that you may list"):
            check_folder(str(tmp_path))
    finally:
        os.seteuid(user)


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
    for nowhere in (("index", "gone"), ("estimate", "gone"), ("search", "x", "gone"), ("grep", "x", "./gone")):
        assert "does not exist" in refused(foldex(running, *nowhere, env=env, cwd=tmp_path))
    assert "--yes" in refused(foldex(running, "search", "x", str(tmp_path), env=env))
    assert not (tmp_path / "home").exists()
    assert foldex(running, "down", env=env).returncode == 1
    assert json.loads(foldex(running, "down", "--json", env=env).stdout) == {"stopped": False}


def test_interrupting_a_wait_leaves_the_indexing_alone(running: Service, root: Path) -> None:
    folder = root / "long"
    folder.mkdir()
    (folder / "a.md").write_text("Words.\n")
    worker = running.processes["worker-all"]
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
    assert f"Cost with {LOCAL_MODEL}: free\n" in done.stdout
    assert foldex(running, "index", str(folder), "--dry-run").stdout == done.stdout
    assert json.loads(foldex(running, "estimate", str(folder), "--json").stdout)["tokens"]["expected"] > 100
    assert str(folder) not in foldex(running, "tools").stdout
    assert "does not exist" in refused(foldex(running, "estimate", str(root / "vanished")))


def test_models_are_listed_and_checked(running: Service) -> None:
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


@pytest.fixture(scope="module")
def guarded(running: Service) -> Iterator[Service]:
    # last in this module: while it runs, doctor names it for its other setting
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
    if verb == ("doctor",):
        for options, remedy in ((("--key", "wrong"), "--key"), (("--server", "http://127.0.0.1:1"), "--server")):
            done = foldex(guarded, "doctor", *options)
            assert (done.returncode, done.stdout[:5], done.stderr) == (
                2,
                "ok   " if "--key" in options else "wrong",
                "",
            )
            assert remedy in done.stdout.splitlines()[-1]
        return
    if verb[0] != "open":  # the page itself asks for its key
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
    if verb[0] in {"index", "estimate", "status", "files", "retry", "delete"}:
        assert "is empty" in refused(foldex(running, verb[0], "", *verb[2:], cwd=docs))

"""The blocks of README and tutorial, pasted into a shell in order, print what the pages show."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from api.cli.service.background import stop
from api.stack.processes import which
from api.stack.record import owner
from tests.agents import over_stdio
from tests.browser.conftest import BROWSERS
from tests.documents import DOCS, ROOT, Block, blocks
from tests.service import Service, environment

pytestmark = pytest.mark.skipif(which("curl") is None, reason="install curl to run")
ADDRESS = "http://127.0.0.1:8000"
#: Seconds that all blocks of a page may take on a busy machine.
PASTE_SECONDS = 400
#: Printed between two blocks.
BORDER = "--- next block ---"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reader")


def pasted(scripts: list[str], home: Path, address: str, *programs: Path, **env: str) -> list[str]:
    """The output of each script, all in one shell."""
    joined = f"\necho; echo '{BORDER}'\n".join(scripts).replace(ADDRESS, address)
    # python3 is this one, wherever the machine has its own
    path = os.pathsep.join([*map(str, programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    ended = subprocess.run(
        ["bash", "-eu", "-o", "pipefail"],
        input=joined,
        env={**os.environ, "HOME": str(home), "NO_PROXY": "127.0.0.1", "PATH": path, **env},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=PASTE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return ended.stdout.split(BORDER)


def shows(expected: str, printed: str) -> bool:
    """Whether a block prints what the page shows; `…` stands for anything."""
    return bool(re.fullmatch(".*".join(map(re.escape, expected.strip().split("…"))), printed.strip(), re.DOTALL))


def test_a_reader_who_pastes_every_block_of_the_readme_sees_what_it_shows(running: Service, home: Path) -> None:
    check(ROOT / "README.md", lambda scripts: pasted(scripts, home, str(running.client.base_url).rstrip("/")))


@pytest.mark.parametrize("answer", [None, b"<html>Another program</html>"])
def test_a_reader_of_the_readme_is_told_once_that_foldex_does_not_run(home: Path, answer: bytes | None) -> None:
    script = "".join(block.text for block in blocks(ROOT / "README.md") if block.runs and block.language == "bash")
    with another_program(answer) as address:
        # a terminal goes on after an error, unlike the shell of `pasted`
        shell = ["bash", "-c", f"{script.replace(ADDRESS, address)}\necho still here"]
        ended = subprocess.run(shell, cwd=home, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout == "still here\n"
    assert ended.stderr == f"Foldex does not answer at {address}: start it with make up.\n"


@contextmanager
def another_program(answer: bytes | None) -> Iterator[str]:
    """The address of a program that is no Foldex; of nothing at all for None."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if answer is None:
            server.close()
        else:
            Thread(target=serve_once, args=(server, answer), daemon=True).start()
        yield f"http://127.0.0.1:{port}"


def serve_once(server: socket.socket, answer: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))


@pytest.mark.timeout(PASTE_SECONDS + 100)
def test_a_reader_of_the_tutorial_gets_to_an_answer_in_terminal_browser_and_agent(tmp_path: Path) -> None:
    """The page starts and stops the stack itself. Afterwards an agent starts it again."""
    page, followed = DOCS / "tutorial.md", tmp_path / "followed"
    programs = tmp_path / "programs"
    programs.mkdir()
    program(programs / "claude", f"{sys.executable} -m tests.fakes.claude")
    program(programs / "browser", f"{sys.executable} -m tests.browser.steps {page} {followed}")
    # the stack finds its own servers and free ports
    env = {name: value for name, value in environment(tmp_path / "home", "", "").items() if value}
    env |= {"PYTHONPATH": str(ROOT), "CLAUDE_FAKE": str(programs)}
    env["BROWSER"] = f"{programs / 'browser'} %s" if which(*BROWSERS) else "true"
    try:
        check(page, lambda scripts: pasted(scripts, tmp_path, ADDRESS, programs, **env))
        assert owner(tmp_path / "home") is None
        with over_stdio(None, env={**env, "HOME": str(tmp_path)}, cwd=tmp_path) as agent:
            assert agent.refused("search", query="vacation").startswith("No folder is indexed yet")
            assert owner(tmp_path / "home") is not None
    finally:
        stop(tmp_path / "home")
    if not which(*BROWSERS):
        # CI installs it, so that it is an error there
        (pytest.fail if os.environ.get("CI") else pytest.skip)("install chromium to run")
    assert followed.read_text() == "ok"


def program(path: Path, command: str) -> None:
    """Make a program of the reader's machine that runs a command."""
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o700)


def check(page: Path, paste: Callable[[list[str]], list[str]]) -> None:
    """Compare what the blocks of a page print with what the page shows."""
    found = [block for block in blocks(page) if block.runs]
    scripts = [block.text for block in found if block.language == "bash"]
    printed = paste(scripts)
    assert len(printed) == len(scripts) > 0
    told = [
        (script_before(found, number), block.text) for number, block in enumerate(found) if block.language == "text"
    ]
    assert told
    wrong = [(scripts[number], text, printed[number]) for number, text in told if not shows(text, printed[number])]
    assert not wrong, "\n".join(f"{script}\nprints\n{seen}\nnot\n{text}" for script, text, seen in wrong)


def script_before(found: list[Block], number: int) -> int:
    """The number of the script whose output a block shows."""
    return sum(earlier.language == "bash" for earlier in found[:number]) - 1

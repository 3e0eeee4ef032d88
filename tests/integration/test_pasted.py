"""The blocks of README and tutorial, pasted into a shell in order, print what the pages show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which

import pytest

from api.cli.background import stop
from api.stack.record import owner
from tests.documents import DOCS, ROOT, Block, blocks
from tests.service import NewService, Service, environment, with_one_worker
from worker.settings import LOCAL_MODEL

pytestmark = pytest.mark.skipif(which("curl") is None, reason="install curl to run")
ADDRESS = "http://127.0.0.1:8000"
#: Printed between two blocks.
BORDER = "--- next block ---"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reader")


@pytest.fixture(scope="module")
def running(new_service: NewService, home: Path) -> Iterator[Service]:
    with new_service(with_one_worker, DEFAULT_EMBEDDING_MODEL=LOCAL_MODEL) as started:
        yield started


def pasted(scripts: list[str], home: Path, address: str, **env: str) -> list[str]:
    """The output of each script, all in one shell."""
    joined = f"\necho; echo '{BORDER}'\n".join(scripts).replace(ADDRESS, address)
    # python3 is this one, wherever the machine has its own
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", "-eu", "-o", "pipefail"],
        input=joined,
        env={**os.environ, "HOME": str(home), "NO_PROXY": "127.0.0.1", "PATH": path, **env},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return ended.stdout.split(BORDER)


def shows(expected: str, printed: str) -> bool:
    """Whether a block prints what the page shows; `…` stands for anything."""
    return bool(re.fullmatch(".*".join(map(re.escape, expected.strip().split("…"))), printed.strip(), re.DOTALL))


def test_a_reader_who_pastes_every_block_of_the_readme_sees_what_it_shows(running: Service, home: Path) -> None:
    check(ROOT / "README.md", lambda scripts: pasted(scripts, home, str(running.client.base_url).rstrip("/")))


def test_a_reader_of_the_tutorial_gets_to_an_answer_in_the_terminal(tmp_path: Path) -> None:
    """The page starts and stops the stack itself."""
    # the stack finds its own servers and free ports
    env = {name: value for name, value in environment(tmp_path / "home", "", "").items() if value}
    try:
        check(DOCS / "tutorial.md", lambda scripts: pasted(scripts, tmp_path, ADDRESS, **env))
        assert owner(tmp_path / "home") is None
    finally:
        stop(tmp_path / "home")


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

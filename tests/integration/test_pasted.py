"""The blocks of README and tutorial, pasted into a shell in order, print what the pages show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest

from tests.documents import DOCS, ROOT, Block, blocks
from tests.service import NewService, Service, with_one_worker
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
    settings = {"DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL, "LOCAL_SOURCE_ROOTS": str(home / "foldex-tutorial")}
    with new_service(with_one_worker, **settings) as started:
        yield started


def pasted(scripts: list[str], running: Service, home: Path) -> list[str]:
    """The output of each script, all in one shell."""
    joined = f"\necho; echo '{BORDER}'\n".join(scripts).replace(ADDRESS, str(running.client.base_url).rstrip("/"))
    # python3 is this one, wherever the machine has its own
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "HOME": str(home), "NO_PROXY": "127.0.0.1", "PATH": path}
    ended = subprocess.run(
        ["bash", "-eu", "-o", "pipefail"],
        input=joined,
        env=env,
        cwd=home,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}\n{running.logs()}"
    return ended.stdout.split(BORDER)


def shows(expected: str, printed: str) -> bool:
    """Whether a block prints what the page shows; `…` stands for anything."""
    return bool(re.fullmatch(".*".join(map(re.escape, expected.strip().split("…"))), printed.strip(), re.DOTALL))


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "tutorial.md"], ids=lambda page: page.name)
def test_a_reader_who_pastes_every_block_sees_what_the_page_shows(page: Path, running: Service, home: Path) -> None:
    found = [block for block in blocks(page) if block.runs]
    scripts = [block.text for block in found if block.language == "bash"]
    printed = pasted(scripts, running, home)
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

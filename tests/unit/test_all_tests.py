"""`make test` runs every test, the few that fail once more, and ends with a summary."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.__main__ import ALL, FAST, FLAKY_AT_MOST, RERUN_AT_MOST, SLOW, main
from tests.shared_service import GROUPS, group_of

ROOT = Path(__file__).parents[2]
PLAIN = ("-q", "-c", os.devnull, "-p", "no:xdist")
#: As all tests run: with the settings of this project, on several processes.
REAL = ("-p", "xdist", "-p", "pytest_timeout", "-c", str(ROOT / "pyproject.toml"), "-n", "2", "--dist", "loadfile")
FIRST = """
import pytest

def test_good(): pass
def test_bad(): assert False
@pytest.mark.skip(reason="install this to run")
def test_skipped(): pass
@pytest.fixture
def broken():
    yield
    raise OSError
def test_with_an_error_at_its_end(broken): pass
"""
SECOND = """
import pytest

def test_good(): pass
def test_better(): pass
def test_skipped(): pytest.skip("install this to run")
"""


@pytest.fixture(autouse=True)
def only_needed_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some installed plugins take a second to import, in each of many processes."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def arguments(directory: Path, name: str, text: str, settings: tuple[str, ...] = PLAIN) -> tuple[str, ...]:
    path = directory / f"test_{name}.py"
    path.write_text(text)
    return (*settings, "--rootdir", str(directory), str(path))


def test_all_outcomes_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments(tmp_path, "first", FIRST), *arguments(tmp_path, "second", SECOND)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[-3:] == ["Skipped:", "     2  install this to run", "3 passed, 2 failed, 2 skipped"]


@pytest.mark.parametrize("settings", [PLAIN, REAL])
def test_a_test_that_passes_alone_is_told_as_flaky(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    settings: tuple[str, ...],
) -> None:
    monkeypatch.setenv("CI", "true")
    mark = str(tmp_path / "mark")
    healing = f"""
import os

def test_good(): pass
def test_it():
    if not os.path.exists({mark!r}):
        os.mkdir({mark!r})
        raise OSError("busy\\nhere")
"""
    assert main(arguments(tmp_path, "healing", healing, settings)) == 0
    said = capfd.readouterr().out.splitlines()
    assert said[-2:] == [
        "Flaky: test_healing.test_it failed, and passed when it ran alone. Its first error: OSError: busy",
        "2 passed (1 flaky), 0 failed, 0 skipped",
    ]


def healing(marks: Path, number: int) -> str:
    """So many tests, each of which passes only when it runs again."""
    return f"""
import pytest
from pathlib import Path
@pytest.mark.parametrize("number", range({number}))
def test_it(number):
    mark = Path({str(marks)!r}) / str(number)
    if not mark.exists():
        mark.touch()
        assert False
"""


@pytest.mark.parametrize("is_ci", [True, False])
@pytest.mark.parametrize("number", [FLAKY_AT_MOST, FLAKY_AT_MOST + 1])
def test_ci_refuses_many_flaky_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, is_ci: bool) -> None:
    monkeypatch.setenv("CI", "true" if is_ci else "")
    refused = is_ci and number > FLAKY_AT_MOST
    assert main(arguments(tmp_path, "healing", healing(tmp_path, number))) == int(refused)


@pytest.mark.parametrize("number", [RERUN_AT_MOST, RERUN_AT_MOST + 1])
def test_only_few_failed_tests_run_once_more(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.delenv("CI", raising=False)
    reran = number == RERUN_AT_MOST
    assert main(arguments(tmp_path, "healing", healing(tmp_path, number))) == (0 if reran else 1)
    told = f"{number} passed ({number} flaky), 0 failed" if reran else f"0 passed, {number} failed"
    assert capfd.readouterr().out.splitlines()[-1] == f"{told}, 0 skipped"


def test_tests_that_differ_between_processes_fail_and_run_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ran = tmp_path / "ran"
    differing = f"""
import os, pathlib, pytest
@pytest.mark.parametrize("process", [os.getpid()])
def test_it(process): pathlib.Path({str(ran)!r}).touch()
"""
    assert main(arguments(tmp_path, "differing", differing, REAL)) == 1
    assert not ran.exists()
    assert capfd.readouterr().out.splitlines()[-1] == "0 passed, 1 failed, 0 skipped"


def test_success_is_told_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(tmp_path, "second", "def test_good(): pass")) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["Nothing was skipped.", "1 passed, 0 failed, 0 skipped"]


def test_a_run_that_cannot_begin_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAIN, "--no-such-option"]) == pytest.ExitCode.USAGE_ERROR
    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 1 failed, 0 skipped"


def test_an_interrupt_ends_it_with_a_summary(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    waits = arguments(
        tmp_path, "waits", f"import time\ndef test_it():\n    open({str(begun)!r}, 'w')\n    time.sleep(600)\n"
    )
    # shells start background jobs with SIGINT ignored, and children inherit that
    heed = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heed}\nimport sys\nfrom tests.__main__ import main\nsys.exit(main({waits!r}))"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        deadline = time.monotonic() + 60
        while not begun.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.splitlines()[-1].endswith(" skipped")


def test_every_directory_of_tests_is_run() -> None:
    named = {Path(argument) for argument in ALL if argument.startswith("tests/")}
    found = {path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")}
    assert [path for path in sorted(found) if not named & {*path.parents}] == []
    assert "-m tests\n" in (ROOT / "Makefile").read_text()


def test_what_the_fast_run_leaves_out_exists() -> None:
    for begin in SLOW:
        path, _, name = begin.partition("::")
        assert path.startswith(tuple(argument for argument in FAST if argument.startswith("tests/"))), begin
        assert f"def {name}" in (ROOT / path).read_text(), begin
    assert "-m tests fast\n" in (ROOT / "Makefile").read_text()


def test_every_skip_says_what_would_run_it() -> None:
    skips = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        # most files skip nothing, and to parse all takes seconds
        if "skip" not in (text := path.read_text()):
            continue
        for node in ast.walk(ast.parse(text)):
            name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and name in {"skip", "skipif", "importorskip"}:
                reasons = [word.value for word in node.keywords if word.arg == "reason"]
                reasons += [] if name in {"skipif", "importorskip"} else node.args
                said = ast.unparse(reasons[0]) if reasons else ""
                skips.append((path.name, node.lineno, said))
    bad = [skip for skip in skips if not skip[2].strip("f'\"").startswith(("install ", "set ", "run ", "PILLOW"))]
    assert bad == []
    assert len(skips) > 10


def test_modules_that_share_a_service_exist_and_run_in_one_process() -> None:
    places = [place for group in GROUPS.values() for place in group]
    assert [place for place in places if not (ROOT / place).exists()] == []
    assert len(set(places)) == len(places)
    modules = {path: path.read_text() for path in (ROOT / "tests" / "chaos").glob("test_*.py")}
    users = [
        path.relative_to(ROOT).as_posix()
        for path, text in modules.items()
        if "here: Cluster" in text and "with cluster(" not in text
    ]
    assert len(users) > 10
    assert {group_of(user) for user in users} == {"chaos of processes", "chaos of servers"}
    assert group_of("tests/integration/local/test_api.py") == group_of("tests/integration/test_client.py") == "local"
    assert group_of("tests/integration/test_model.py") == "tests/integration/test_model.py"

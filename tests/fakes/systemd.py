"""As much of systemd as docs/how-to/several-machines.md needs: `python -m tests.fakes.systemd PROGRAM ARGUMENT…`.

All paths of the machine lie below the directory MACHINE. Services run as the present user. `systemctl stop` is as
`KillMode=mixed` says: it returns once the main process has ended.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGKILL, SIGTERM

import psutil

from tests import units
from tests.units import Unit

MACHINE = Path(os.environ.get("MACHINE", "/"))
SYSTEM = MACHINE / "etc" / "systemd" / "system"
#: The pids of services, by name.
PIDS = MACHINE / "pids"
PATHS = (units.CHECKOUT, units.HOME, units.SETTINGS)
HOST, MACHINE_ID = "test-host", "0123456789abcdef0123456789abcdef"


def below(text: str) -> str:
    """A text with the paths of an installation below the machine's directory."""
    for path in PATHS:
        text = text.replace(path, f"{MACHINE}{path}")
    return text


def settings() -> dict[str, str]:
    lines = (MACHINE / units.SETTINGS.lstrip("/")).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def unit_of(name: str) -> Unit:
    return units.read(SYSTEM / f"{name}.service")


def start(name: str) -> None:
    unit = unit_of(name)
    env = {"PATH": os.defpath, **{key: below(value) for key, value in unit.env.items()}, **settings()}
    command = [below(word) for word in units.command_of(unit, env, HOST, MACHINE_ID)]
    with (MACHINE / f"{name}.log").open("ab") as log:
        cwd = below(unit.options["WorkingDirectory"][-1])
        child = subprocess.Popen(command, cwd=cwd, env=env, stdout=log, stderr=log, start_new_session=True)
    (PIDS / name).write_text(str(child.pid))


def stop(name: str) -> None:
    unit, path = unit_of(name), PIDS / name
    if not path.exists():
        return
    pid = int(path.read_text())
    os.kill(pid, SIGTERM)
    seconds = unit.options.get("TimeoutStopSec", ["90s"])[-1]
    deadline = time.monotonic() + float(seconds.removesuffix("s"))
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            os.killpg(pid, SIGKILL)
            sys.exit(f"{name} did not end within {seconds}")
        time.sleep(0.05)
    path.unlink()


def systemctl(verb: str, *words: str) -> None:
    names = [word for word in words if word != "--now"]
    is_now = "--now" in words
    assert is_now == (verb in {"enable", "disable"})
    acts: dict[str, list[Callable[[str], None]]] = {
        "daemon-reload": [],
        "enable": [start],
        "disable": [stop],
        "stop": [stop],
        "restart": [stop, start],
    }
    for name in names:
        for act in acts[verb]:
            act(name)


def systemd_run(*words: str) -> None:
    """Run a command with the options before it, and return its status."""
    at = next(number for number, word in enumerate(words) if not word.startswith("--"))
    options = [word.removeprefix("--").split("=", 1) for word in words[:at]]
    given = dict(option[1].split("=", 1) for option in options if option[0] == "setenv")
    assert ["property", f"EnvironmentFile={MACHINE}{units.SETTINGS}"] in options, shlex.join(words)
    (cwd,) = [option[1] for option in options if option[0] == "working-directory"]
    ended = subprocess.run(words[at:], cwd=cwd, env={"PATH": os.defpath, **given, **settings()}, check=False)
    sys.exit(ended.returncode)


if __name__ == "__main__":
    PIDS.mkdir(exist_ok=True)
    name, *arguments = sys.argv[1:]
    act = systemctl if name == "systemctl" else systemd_run
    act(*arguments)

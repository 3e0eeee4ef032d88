"""deploy/systemd matches the compose file, the settings and docs/how-to/several-machines.md, and systemd accepts it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from api.stack import programs
from tests import units
from tests.composed import OURS, SERVICES, command_of
from tests.documents import DOCS, ROOT
from tests.unit.test_deploy import OURS_AND_FOREIGN
from worker.hosts.compared_settings import OF_API, OF_ONE_MACHINE

PAGE = (DOCS / "how-to" / "several-machines.md").read_text()
UNITS = {path.stem.removeprefix("foldex-"): units.read(path) for path in units.UNITS}
#: What a unit has in place of the compose file's words.
IN_PLACE = {
    "python": f"{units.CHECKOUT}/.venv/bin/python",
    "--address=0.0.0.0": "--address=127.0.0.1",
    "--port=5555": "--port=${FLOWER_PORT}",
    "bulk@%h": "bulk@%H-%m",
    "fast@%h": "fast@%H-%m",
}


def test_there_is_a_unit_for_each_service_of_ours() -> None:
    assert UNITS.keys() == OURS
    assert {f"foldex-{name}" for name in OURS} == set(re.findall(r"`(foldex-[\w-]+)`", PAGE))


@pytest.mark.parametrize("name", sorted(OURS - {"beat"}))
def test_a_unit_runs_what_the_compose_file_runs(name: str) -> None:
    words = command_of(SERVICES[name]["command"])
    if words[0] == "sh":
        words = words[2].replace('"$WORKER_CONCURRENCY"', "${WORKER_CONCURRENCY}").split()[1:]
    assert [*UNITS[name].command] == [IN_PLACE.get(word, word) for word in words]


def test_the_scheduler_has_no_state_file() -> None:
    assert UNITS["beat"].command[1:] == programs.beat({}).command[-2:]


@pytest.mark.parametrize("name", sorted(OURS))
def test_units_restart_end_as_the_compose_file_says_and_set_only_settings(name: str) -> None:
    unit, service = UNITS[name], SERVICES[name]
    assert unit.options["Restart"] == ["always"]
    assert unit.options["KillMode"] == ["mixed"]
    assert unit.options.get("TimeoutStopSec") == ([service["stop_grace_period"]] if "worker" in name else None)
    assert unit.options["EnvironmentFile"] == [units.SETTINGS]
    # not a setting of Foldex, but of its interpreter
    assert unit.env.keys() - {"PYTHONPATH"} <= OURS_AND_FOREIGN
    used = set(re.findall(r"\$\{(\w+)\}", " ".join(unit.command)))
    assert used <= unit.env.keys(), "a variable without a default"


def test_all_packages_of_ours_are_found() -> None:
    places = [ROOT, *(ROOT / path for path in re.findall(rf"{units.CHECKOUT}/(\S+)", UNITS["api"].env["PYTHONPATH"]))]
    assert UNITS["api"].options["WorkingDirectory"] == [units.CHECKOUT]
    packages = ("api", "worker", "schemas", "foldex_client")
    assert [name for name in packages if not any((place / name / "__init__.py").exists() for place in places)] == []
    assert f"--setenv=PYTHONPATH={UNITS['api'].env['PYTHONPATH']}" in PAGE


def test_the_page_names_the_settings_that_may_differ() -> None:
    lists = PAGE.partition("## What may differ")[2].partition("\n## ")[0].partition("- Settings of new indexes")
    assert {name.lower() for name in re.findall(r"`([A-Z_]+)`", lists[0])} == OF_ONE_MACHINE
    of_new = {name.lower() for name in re.findall(r"`([A-Z_]+)`", lists[2])}
    assert of_new <= OF_API | {"default_embedding_model"}


def verified(place: Path) -> str:
    """What systemd says of the units in a directory."""
    program = shutil.which("systemd-analyze")
    if program is None:
        # CI installs it, so that it is an error there
        (pytest.fail if os.environ.get("CI") else pytest.skip)("install systemd to run")
    command = [program, "verify", "--man=no", *sorted(map(str, place.glob("*.service")))]
    env = {**os.environ, "SYSTEMD_UNIT_PATH": f"{place}:"}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return ended.stdout + ended.stderr + ("" if ended.returncode == 0 else f"status {ended.returncode}")


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    shutil.copytree(units.FOLDER, tmp_path, dirs_exist_ok=True)
    for path in tmp_path.glob("*.service"):
        path.write_text(path.read_text().replace(f"{units.CHECKOUT}/.venv/bin/python", sys.executable))
    ours = [line for line in verified(tmp_path).splitlines() if "foldex" in line]
    assert ours == []
    common = tmp_path / units.COMMON.relative_to(units.FOLDER)
    common.write_text(common.read_text().replace("KillMode=mixed", "KillMode=mixt"))
    assert "kill mode" in verified(tmp_path), "what they have in common is not read"

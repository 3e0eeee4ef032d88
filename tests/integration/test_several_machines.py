"""The commands of docs/how-to/several-machines.md, and the units that it installs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

import httpx
import pytest

from api.stack.processes import server_port
from tests import units
from tests.documents import DOCS, ROOT, blocks
from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.systemd import HOST, MACHINE_ID
from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.integration.test_pasted import pasted, program
from tests.service import environment, eventually, new_database, next_broker
from worker.app import make_app
from worker.objects.object_store import s3_client

PAGE = DOCS / "how-to" / "several-machines.md"
#: Where the units look for what an installation has; the test's machine has all below one directory.
PATHS = (units.CHECKOUT, "/etc/foldex", "/etc/systemd/system", units.HOME)
#: What an installation's checkout holds.
CHECKOUT = ("api", "client", "deploy", "schemas", "worker")


@dataclass
class Machine:
    """A directory with a machine's paths, and its settings."""

    place: Path
    env: dict[str, str]

    def paste(self, *scripts: str) -> list[str]:
        """The output of scripts, with the machine's paths and programs."""
        paths = re.compile("|".join(map(re.escape, PATHS)))
        here = [paths.sub(lambda found: f"{self.place}{found[0]}", script) for script in scripts]
        return pasted(here, self.place, "", self.place / "programs", MACHINE=str(self.place), PYTHONPATH=str(ROOT))

    def pids(self) -> dict[str, int]:
        return {path.name: int(path.read_text()) for path in (self.place / "pids").glob("*")}

    def logs(self) -> str:
        return "\n".join(f"--- {log.stem}\n{log.read_text()[-3000:]}" for log in self.place.glob("*.log"))

    def settings_file(self) -> str:
        """A script that replaces the page's settings by those of the test."""
        lines = "".join(f"{name}={value}\n" for name, value in self.env.items())
        return f"cat >{units.SETTINGS} <<'END'\n{lines}END\n"

    def answers(self, port: str, path: str) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.env[port]}{path}", trust_env=False).is_success
        except httpx.TransportError:
            return False

    def workers(self) -> list[str]:
        with make_app(self.env["CELERY_BROKER_URL"]) as app:
            return sorted(name for answer in app.control.ping(timeout=1) for name in answer)


@pytest.fixture
def machine(
    tmp_path: Path, postgres_url: str, template_url: str, redis_url: str, s3: dict[str, str]
) -> Iterator[Machine]:
    place = tmp_path / "machine"
    for path in PATHS:
        (place / path.lstrip("/")).mkdir(parents=True)
    checkout = place / units.CHECKOUT.lstrip("/")
    for name in CHECKOUT:
        (checkout / name).symlink_to(ROOT / name)
    (checkout / ".venv").symlink_to(sys.prefix)
    programs = place / "programs"
    programs.mkdir()
    for name in ("systemctl", "systemd-run"):
        program(programs / name, f"{sys.executable} -m tests.fakes.systemd {name}")
    program(programs / "sudo", "env")
    program(programs / "chgrp", "true")
    s3_client(s3["S3_ENDPOINT_URL"]).create_bucket(Bucket="machines")
    with new_database(postgres_url, template_url) as database, EmbeddingsFake() as provider, FakeTurbopuffer() as store:
        given = environment(place / units.HOME.lstrip("/"), database, next_broker(redis_url))
        own = {"AUTH": "on", "S3_BUCKET": "machines", "FLOWER_PORT": f"{server_port()}"}
        env = {name: value for name, value in given.items() if value} | s3 | provider.env | store.env | own
        made = Machine(place, env)
        yield made
        for pid in made.pids().values():
            os.killpg(pid, SIGKILL)


def test_the_commands_of_the_page_add_drain_and_replace_a_machine(machine: Machine) -> None:
    scripts = [block.text for block in blocks(PAGE) if block.runs and block.language == "bash"]
    settings, start, commands, drain, replace, *upgrade = scripts
    machine.paste(settings, machine.settings_file(), start)
    assert set(machine.pids()) == {unit.stem for unit in units.UNITS}
    eventually(lambda: machine.answers("API_PORT", "/readyz"), 90, machine.logs)
    eventually(lambda: machine.answers("FLOWER_PORT", "/healthcheck"), 90, machine.logs)
    eventually(lambda: len(machine.workers()) == 2, 90, machine.logs)
    nodes = [f"{queue}@{HOST}-{MACHINE_ID}" for queue in ("bulk", "fast")]
    assert machine.workers() == nodes
    (shown,) = machine.paste(commands)
    assert re.search(r"^fx_\S{40,}$", shown, re.MULTILINE), shown
    assert all(f"{node}: OK" in shown for node in nodes), shown
    machine.paste(drain)
    assert set(machine.pids()) == {"foldex-api", "foldex-beat", "foldex-flower", "foldex-watch"}
    assert machine.workers() == []
    machine.paste(replace)
    assert machine.pids() == {}
    assert len(upgrade) == 1

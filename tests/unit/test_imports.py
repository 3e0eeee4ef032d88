"""Modules that the API process must not load: it would start seconds later, and use memory for work it never does."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

from api.stack.record import ROOT

STEPS = ["tasks", "index", "upkeep.sweep", "upkeep.open_tasks", "upkeep.deletions", "parse", "chunk"]
HEAVY = [
    "litellm",
    "openai",
    "lancedb",
    "pyarrow",
    "boto3",
    "turbopuffer",
    "api.stack",
    "moto",
    "pytest",
    "mcp",
    "mcp_types",
]
CREATE = "from worker.settings import Settings; from api.main import create_app; create_app(Settings())"


def loaded(code: str) -> set[str]:
    """All modules that a new interpreter has loaded after running the code."""
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(shown.stdout.split())


def test_creating_the_api_loads_no_step_of_indexing_and_nothing_heavy() -> None:
    modules = loaded(CREATE)
    assert "api.routes.tools" in modules
    assert not modules & {f"worker.{step}" for step in STEPS}
    assert not modules & set(HEAVY)


def test_the_api_uses_exactly_the_shared_engine_that_contributors_read_of() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (closed,) = (each["forbidden_modules"] for each in contracts if "shared engine" in each["name"])
    [said] = re.findall(r"Shared engine.*?: (.*?)\. The", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    engine = set(re.findall(r"`(\w+)`", said))
    parts = {path.stem for path in (ROOT / "worker").iterdir() if not path.name.startswith("__")}
    assert engine == parts - {name.removeprefix("worker.") for name in closed}
    api = "".join(path.read_text() for path in (ROOT / "api").rglob("*.py"))
    used = {name for each in re.findall(r"from worker(?:\.(\w+)| import ([\w, ]+))", api) for name in each}
    assert engine <= {name.split(" as ")[0] for names in used for name in names.split(", ")}


def test_the_queue_can_be_sent_to_without_loading_a_task() -> None:
    modules = loaded("import worker.app")
    assert not modules & {f"worker.{step}" for step in STEPS}
    assert "litellm" not in modules


def test_the_nouns_load_no_other_floor() -> None:
    modules = loaded("import schemas.tool, schemas.queries.search, schemas.content.node, schemas.errors")
    assert not {name for name in modules if name.split(".")[0] in {"worker", "api", "psycopg", "celery"}}


def test_opening_lancedb_loads_no_client_of_catalogues() -> None:
    modules = loaded("import worker.vectors.lance.open_tables")
    assert "lancedb" in modules
    assert "lance_namespace_urllib3_client.models" in modules
    assert not {name for name in modules if name.startswith("lance_namespace_urllib3_client.api")}


def test_a_helper_loads_little() -> None:
    # each run starts several, and reads files only once they have begun
    modules = loaded("import worker.parse.sandbox.child")
    assert "worker.parse.sandbox.read" in modules
    assert not modules & {"pydantic", "structlog", "asyncio", "schemas.tool", "schemas.status"}

"""A service that modules with equal settings use one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from urllib.parse import quote

from api.stack.processes import Process
from tests.service import NewService, Service, checked, service
from worker.settings import LOCAL_LLM, LOCAL_MODEL

#: What starts the processes of a service.
How = Callable[[Mapping[str, str]], AbstractContextManager[Service]]
#: Starts no workers.
API_ONLY: How = partial(service, workers=False)
#: Maximum bytes of a body where keys are asked for.
MAX_BODY_BYTES = 100_000
#: Modules and packages whose tests share a service, by group: one process runs all of a group, so none may take longer
#: than the other processes have to do. Those of `tests/chaos` share a cluster, unless they start their own.
GROUPS = {
    "chaos of processes": (
        "tests/chaos/test_boundaries.py",
        "tests/chaos/test_lists.py",
        "tests/chaos/test_monkey.py",
        "tests/chaos/test_processes.py",
        "tests/chaos/test_trees.py",
        "tests/chaos/test_two_steps.py",
    ),
    "chaos of servers": (
        "tests/chaos/test_clock.py",
        "tests/chaos/test_limits.py",
        "tests/chaos/test_messages.py",
        "tests/chaos/test_nodes.py",
        "tests/chaos/test_paused.py",
        "tests/chaos/test_provider.py",
        "tests/chaos/test_requests.py",
        "tests/chaos/test_soak.py",
        "tests/chaos/test_stopped.py",
        "tests/chaos/test_store.py",
        "tests/chaos/test_watchers.py",
    ),
    "local": (
        "tests/integration/local/",
        "tests/integration/test_api_processes.py",
        "tests/integration/test_client.py",
        "tests/integration/test_index_life.py",
        "tests/integration/test_node_listing.py",
        "tests/integration/test_node_moves.py",
        "tests/integration/test_places.py",
        "tests/integration/test_renames.py",
        "tests/integration/test_upload_keys.py",
    ),
    "agents": (
        "tests/integration/test_agent_tasks.py",
        "tests/integration/test_agents.py",
        "tests/integration/test_agents_folders.py",
        "tests/integration/test_command.py",
        "tests/integration/test_command_accidents.py",
        "tests/integration/test_command_grep.py",
        "tests/integration/test_command_large.py",
        "tests/integration/test_command_shown.py",
        "tests/integration/test_command_words.py",
        "tests/integration/test_described.py",
        "tests/integration/test_pasted.py",
    ),
    "pages": (
        "tests/integration/test_trees.py",
        "tests/browser/test_page_drop.py",
        "tests/browser/test_page_find.py",
        "tests/browser/test_page_home.py",
        "tests/browser/test_page_link.py",
        "tests/browser/test_page_pictures.py",
        "tests/browser/test_page_tools.py",
        "tests/browser/test_page_tree.py",
    ),
    "keys": (
        "tests/integration/test_gate.py",
        "tests/integration/test_keys.py",
        "tests/integration/test_shares.py",
        "tests/browser/test_docs_page.py",
        "tests/browser/test_page_key.py",
    ),
    "provider": ("tests/integration/provider/",),
    "stores": ("tests/integration/stores/",),
    "turbopuffer": ("tests/integration/turbopuffer/",),
}
#: Projects that have something.
PROJECTS = "SELECT project_id FROM search_tool UNION SELECT project_id FROM content_node"


def local_settings(root: Path) -> dict[str, str]:
    """Settings with which most modules over local folders work."""
    return {
        "DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL,
        "DEFAULT_LLM_MODEL": LOCAL_LLM,
        "FLOWER_URL": "http://127.0.0.1:9",
        "LOCAL_SOURCE_ROOTS": str(root),
        # the first search loads what it needs, which takes long on a busy machine
        "SEARCH_SECONDS": "60",
    }


def keys_settings(root: Path) -> dict[str, str]:
    """Settings of an API that asks for keys."""
    return {
        "AUTH": "on",
        "DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL,
        "LOCAL_SOURCE_ROOTS": str(root),
        "MAX_BODY_BYTES": str(MAX_BODY_BYTES),
    }


def group_of(path: str) -> str:
    """The group of a module, which is the module itself if it shares no service."""
    return next((name for name, places in GROUPS.items() if path.startswith(places)), path)


class SharedService:
    """Starts a service, and keeps it for the next module that wants one with equal settings."""

    def __init__(self, new_service: NewService) -> None:
        self._new_service = new_service
        self._settings: tuple[How, Mapping[str, str]] | None = None
        self._started = ExitStack()
        self._service: Service | None = None

    def get(self, env: Mapping[str, str], how: How = service) -> Service:
        """The service with these settings, without what earlier modules left there."""
        if self._service and (how, env) == self._settings and all(map(_is_well, self._service.processes.values())):
            clear(self._service)
            return self._service
        self.stop()
        self._service = self._started.enter_context(self._new_service(how, **env))
        self._settings = (how, env)
        return self._service

    def stop(self) -> None:
        """Stop the service, if there is one."""
        self._service = None
        self._started.close()


def _is_well(process: Process) -> bool:
    return not process.ended() and process.program.ready()


def clear(service: Service) -> None:
    """Delete all projects and caches. Behind keys all stays: there a module has projects of its own."""
    if service.env["AUTH"] == "off":
        for (project,) in service.rows(PROJECTS):
            checked(service.client.delete(f"/api/projects/{quote(project, safe='')}"), 202)
        service.rows("TRUNCATE embedding_cache, summary_cache")

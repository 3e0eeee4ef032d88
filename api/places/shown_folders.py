"""The folders of this machine that a caller may know by name: rules with access lists hide some."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from api.http.dependencies import Caller
from api.http.sight import seen
from api.search.text.visibility import admitted_paths
from schemas.content.source import LocalSource
from worker.machine.paths import is_below, real_path
from worker.state.index import tools
from worker.state.pool import Pool

#: A file that a folder may have: the folder is hidden if it would be.
_ANY_FILE = "any"


def shown_folders(pool: Pool, caller: Caller) -> Callable[[str], bool]:
    """Whether a caller may know a folder, by its real path.

    Rules name folders, so callers who may change rules may know all.
    """
    if caller.project_id is None or caller.sight.is_whole or "write" in caller.scopes:
        return lambda _: True
    tests: list[tuple[str, Callable[[str], bool]]] = []
    for tool in tools.searchable(pool, caller.project_id):
        source, is_admitted = tool.index.source, admitted_paths(seen(tool.index, caller.sight))
        # a folder that is gone has no names to show
        with suppress(OSError, ValueError):
            if isinstance(source, LocalSource) and is_admitted is not None:
                tests.append((real_path(source.path).rstrip("/"), is_admitted))
    return lambda path: all(
        is_admitted(f"{path[len(root) + 1 :]}/{_ANY_FILE}") for root, is_admitted in tests if _is_inside(path, root)
    )


def _is_inside(path: str, root: str) -> bool:
    return path != root and is_below(path, root or "/")

"""Makes an answer again if access lists changed meanwhile: once a change is answered, nothing shows what it revoked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from threading import Lock
from typing import Any, Protocol, TypeVar, runtime_checkable
from uuid import UUID

from cachetools import TTLCache

from api.http.lookup_cache import LookupCache
from api.http.sight import ListsVersion, SeenIndex
from schemas.content.acl import Sight
from schemas.errors import FoldexError, ServerBusy
from schemas.queries.metadata import MetadataRule
from worker.resources import Resources
from worker.state.access import acl
from worker.state.index import tools
from worker.state.pool import Pool

#: Maximum attempts to make one answer. Each takes milliseconds, and lists change at most some times in a second.
MAX_TIMES = 5
#: Seconds for which a process assumes unchanged lists when it begins an answer. At the end it always asks.
BEGIN_SECONDS = 0.25
#: Projects whose versions a process remembers.
MAX_PROJECTS = 10_000
#: Seconds for which a process remembers rules of tools, by the version of the lists: each change of rules makes a new
#: one. The number of entries of all these rules.
RULES_SECONDS, MAX_RULES = 300, 100_000

#: Operations that call `by_current_lists` themselves: a stream of events begins before its answer is made.
CHECKED_WITHIN = frozenset({"query_tool", "search_project"})
#: Operations whose answers contain nothing about files, so lists do not affect them.
WITHOUT_FILES = frozenset({"get_access", "get_hosts", "list_indexers", "list_models", "list_sources"})

Answer = TypeVar("Answer")
Rules = tuple[MetadataRule, ...]

_lock = Lock()
_versions: TTLCache[str, ListsVersion] = TTLCache(MAX_PROJECTS, BEGIN_SECONDS)
#: By tool, and by the number of revocations.
_rules: LookupCache[tuple[UUID, int], Rules] = LookupCache(
    lambda _key: None,
    RULES_SECONDS,
    MAX_RULES,
    lambda _key, rules: 1 + sum(1 + len(rule.set) + len(rule.acl or ()) for rule in rules),
)


@runtime_checkable
class Seer(Protocol):
    """A viewer of a project's documents: a caller, or an index as one caller sees it."""

    @property
    def sight(self) -> Sight:
        """Whose documents may be shown."""
        ...

    @property
    def project_id(self) -> str | None:
        """The project; None: any."""
        ...


@runtime_checkable
class Open(Protocol):
    """An answer that holds something open until it is sent."""

    def close(self) -> None:
        """End it unsent."""
        ...


def by_current_lists(
    pool: Pool, project_id: str, sight: Sight, make: Callable[[ListsVersion | None], Answer]
) -> Answer:
    """Return the answer of `make`, or raise, for a version of the lists that is still current at its end.

    Raises `ServerBusy` if the lists never stay the same.
    """
    if sight.is_whole:
        return make(None)
    with _lock:
        version = _versions.get(project_id)
    version = version or _present(pool, project_id)
    for number in range(MAX_TIMES):
        # others have the kept one; files that are new cannot spoil an answer of selected ones, however many come
        version = ListsVersion(version.number, is_selective=number > 0)
        answer: Answer | None = None
        error: FoldexError | None = None
        try:
            answer = make(version)
        except FoldexError as raised:
            # its text may name things that are hidden by now
            error = raised
        before = version
        if error is not None or not before.is_open:
            version = _present(pool, project_id)
        if before.holds(version):
            if error is not None:
                raise error
            return answer  # type: ignore[return-value] # whatever `make` returned
        if isinstance(answer, Open):
            answer.close()
    raise ServerBusy("Access lists change all the time; try again shortly.")


def by_lists(pool: Pool, index: SeenIndex, lists: ListsVersion | None) -> SeenIndex:
    """The index for an answer by these lists, with the rules that its tool has in them: those at hand may be older."""
    if lists is None or lists.number is None or index.tool_id is None:
        return index if lists is None else replace(index, lists=lists)
    tool_id = index.tool_id
    rules = _rules.get((tool_id, lists.number.revoked), lambda: _present_rules(pool, tool_id))
    metadata = index.metadata if rules is None else index.metadata.model_copy(update={"rules": rules})
    return replace(index, lists=lists, metadata=metadata)


def _present_rules(pool: Pool, tool_id: UUID) -> Rules | None:
    # read after the version. If they are newer, so is the version at the end of the answer
    found = tools.index_of_tool(pool, tool_id)
    return None if found is None else tuple(found.metadata.rules)


def _present(pool: Pool, project_id: str) -> ListsVersion:
    version = ListsVersion(acl.version(pool, project_id))
    with _lock:
        _versions[project_id] = version
    return version


def answers_by_current_lists(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """An endpoint whose answers hold at their end. It takes a `SeenIndex` or a caller, and `resources`."""
    if inspect.iscoroutinefunction(endpoint) or hasattr(endpoint, "by_current_lists"):
        return endpoint

    @wraps(endpoint)
    def answer(**values: Any) -> Any:
        seer = next((value for value in values.values() if isinstance(value, Seer)), None)
        resources = values.get("resources")
        if seer is None or seer.project_id is None or not isinstance(resources, Resources):
            return endpoint(**values)

        def make(lists: ListsVersion | None) -> Any:
            indexes = {name: value for name, value in values.items() if isinstance(value, SeenIndex)}
            pinned = {name: by_lists(resources.pool, index, lists) for name, index in indexes.items()}
            return endpoint(**values | pinned)

        return by_current_lists(resources.pool, seer.project_id, seer.sight, make)

    answer.by_current_lists = True  # type: ignore[attr-defined] # a route may be made again of its endpoint
    return answer

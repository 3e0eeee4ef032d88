"""The table of indexers. To add one, add a module beside this file, a row here, and its config; see docs/."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from pydantic import BaseModel

from api.indexers import Indexer, Subject, chunks, summary_tree
from schemas.derived import DerivedConfigs, TreeSearch
from schemas.errors import FoldexError, LlmNotConfigured, ModelNotAllowed
from schemas.indexer import IndexerInfo, IndexerStatus
from schemas.summary_tree import RaptorConfig
from schemas.tool import ChunksConfig, ToolConfig
from worker.resources import Resources
from worker.tree.clusters import LIBRARIES


def accepted(_: Resources, __: Any) -> None:
    """Accept every config."""


@dataclass(frozen=True, slots=True)
class RegisteredIndexer:
    """An indexer with what is known of it.

    `tree` are the values of a query's `tree` that it answers. `check` refuses a config that cannot work here, with one
    of `errors`. `modules` must be importable. `topic` is the heading of its calls.
    """

    name: str
    description: str
    config: type[BaseModel]
    indexer: Indexer
    tree: tuple[TreeSearch, ...]
    topic: str
    check: Callable[[Resources, Any], None] = accepted
    errors: tuple[type[FoldexError], ...] = ()
    modules: tuple[str, ...] = ()

    def of(self, config: ToolConfig) -> Any:
        """The part of a tool's config that is for this indexer. Only of a derived one."""
        return getattr(config, self.name)


CHUNKS = RegisteredIndexer(
    "chunks",
    "Chunks of the files, found by meaning and by keywords. Every tool has this index.",
    ChunksConfig,
    chunks,
    tree=("off",),
    topic="search tools",
)
TREE = RegisteredIndexer(
    "raptor",
    "A tree of summaries over the chunks, for questions about a whole folder. Its cluster methods gmm and kmeans need "
    "scikit-learn and umap-learn; adjacent works without them, also while the status is missing_dependency.",
    RaptorConfig,
    summary_tree,
    tree=("collapsed", "tree_traversal"),
    topic="summary trees",
    check=summary_tree.check,
    errors=(LlmNotConfigured, ModelNotAllowed),
    modules=LIBRARIES,
)

INDEXERS = (CHUNKS, TREE)
#: Indexes besides the chunks. Each has a field of its name in a tool's config, whose model has `enabled`.
DERIVED = tuple(row for row in INDEXERS if row.name in DerivedConfigs.model_fields)


def answering(tree: TreeSearch) -> Indexer:
    """The indexer that answers queries with this value of `tree`."""
    return next(row.indexer for row in INDEXERS if tree in row.tree)


def info(row: RegisteredIndexer, resources: Resources) -> IndexerInfo:
    """A row as the API shows it."""
    return IndexerInfo(
        name=row.name,
        description=row.description,
        status=_status(row, resources),
        config_schema=row.config.model_json_schema(),
    )


def _status(row: RegisteredIndexer, resources: Resources) -> IndexerStatus:
    try:
        row.check(resources, row.config())
    except FoldexError:
        return "not_configured"
    return "available" if all(map(find_spec, row.modules)) else "missing_dependency"


def check_derived(resources: Resources, config: ToolConfig, present: ToolConfig | None = None) -> None:
    """Refuse a config that enables an index which cannot be built here, unless the tool has it at present."""
    for row in _enabled(config):
        if present is None or row.of(config) != row.of(present):
            row.check(resources, row.of(config))


def follow_config(resources: Resources, subject: Subject, before: ToolConfig) -> None:
    """Build the derived indexes that a tool's config enables, and delete those that only the config before enabled."""
    wanted = _enabled(subject.config)
    for row in wanted:
        row.indexer.build(resources, subject, "due")
    for row in _enabled(before):
        if row not in wanted:
            row.indexer.drop(resources, subject)


def drop_derived(resources: Resources, subject: Subject) -> None:
    """Delete the derived indexes of a deleted tool."""
    for row in _enabled(subject.config):
        row.indexer.drop(resources, subject)


def _enabled(config: ToolConfig) -> list[RegisteredIndexer]:
    return [row for row in DERIVED if row.of(config).enabled]

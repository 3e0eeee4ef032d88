"""The tree of summaries of a search tool: its state, its builds and its nodes."""

from __future__ import annotations

from datetime import UTC
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query

from api.http.dependencies import Cursor, Limit, ResourcesDep, ToolDep, from_cursor, needs_space, to_cursor
from api.http.described_errors import raises
from api.search.tree.built import built_tree
from schemas.errors import LlmNotConfigured, ModelNotAllowed, NoTree
from schemas.raptor import BuildRequest, RaptorConfig, RaptorEstimate, RaptorStatus, TreeLevel, TreeNode
from schemas.tool import Listing
from worker.embed import known_models
from worker.embed.known_models import KnownModel
from worker.embed.models import is_local
from worker.resources import Resources
from worker.state.index import tool_actions
from worker.state.tree import trees, views
from worker.state.tree.trees import Tree
from worker.tree.estimate import cost
from worker.tree.models import LlmOptions, model_of, provider_of

router = APIRouter(prefix="/api/tools/search", tags=["summary trees"])

#: Share of a build that is done before its end: the last step follows.
MAX_PROGRESS = 0.99


@router.get("/{tool_id}/raptor/status")
def get_tree(tool: ToolDep, resources: ResourcesDep) -> RaptorStatus:
    """Get the tree that answers, and the progress of its newest build. Without a tree, every number is 0."""
    return _status(resources, tool)


@router.get("/{tool_id}/raptor/estimate", openapi_extra=raises(LlmNotConfigured, ModelNotAllowed))
def estimate_tree(tool: ToolDep, resources: ResourcesDep) -> RaptorEstimate:
    """Estimate a build of the whole tree, without asking anyone. What is cached costs nothing again."""
    config = RaptorConfig.model_validate(tool["config"].get("raptor") or {})
    options = resources.settings.values(LlmOptions)
    model = model_of(config, options)
    leaves, tokens = views.folder(resources.pool, tool["index_id"])
    expected = cost(config, leaves, tokens)
    free = is_local(model)
    known = KnownModel(input_price=0.0, output_price=0.0) if free else known_models.known(model)
    priced = free or provider_of(model, options).api_base is None
    spent = 0 if free else expected.tokens
    return RaptorEstimate(
        leaves=leaves,
        summaries=expected.summaries,
        requests=0 if free else expected.summaries,
        tokens_in=0 if free else expected.tokens_in,
        tokens_out=0 if free else expected.tokens_out,
        usd=expected.money(known.input_price, known.output_price) if priced else None,
        model=model,
        method=config.cluster_method,
        fits=(config.cluster_method == "adjacent" or leaves <= config.max_leaves)
        and (config.max_tokens is None or spent <= config.max_tokens),
    )


@router.post(
    "/{tool_id}/raptor/build",
    status_code=202,
    dependencies=[needs_space],
    openapi_extra=raises(LlmNotConfigured, ModelNotAllowed),
)
def build_tree(tool: ToolDep, resources: ResourcesDep, body: BuildRequest | None = None) -> RaptorStatus:
    """Build the tree, and keep it up to date from then on: sets `config.raptor.enabled`.

    If a build is open, one more follows it. A build waits until no task works on the tool's index.
    """
    options = body or BuildRequest()
    _set_enabled(resources, tool, enabled=True)
    tree = trees.of_tool(resources.pool, tool["tool_id"])
    if tree is not None:
        trees.request(resources.pool, tree.id, full=options.full)
    return _status(resources, tool)


@router.post("/{tool_id}/raptor/cancel", status_code=202)
def cancel_tree(tool: ToolDep, resources: ResourcesDep) -> RaptorStatus:
    """Stop the build. The last complete tree stays. Does nothing if no build is open."""
    tree = trees.of_tool(resources.pool, tool["tool_id"])
    if tree is not None:
        trees.cancel(resources.pool, tree.id)
    return _status(resources, tool)


@router.delete("/{tool_id}/raptor", status_code=202)
def delete_tree(tool: ToolDep, resources: ResourcesDep) -> RaptorStatus:
    """Delete the tree, unless another tool shares it: clears `config.raptor.enabled`."""
    _set_enabled(resources, tool, enabled=False)
    return _status(resources, tool)


@router.get("/{tool_id}/raptor/nodes", openapi_extra=raises(NoTree))
def list_summaries(
    tool: ToolDep,
    resources: ResourcesDep,
    level: Annotated[int | None, Query(ge=0, le=5, description="Only this level; 0: texts of the folder.")] = None,
    parent: Annotated[UUID | None, Query(description="Only what this summary summarises.")] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Listing[TreeNode]:
    """List the nodes of the tree that answers, from the top down; without `level` and `parent` all summaries."""
    tree = built_tree(resources.pool, tool["tool_id"])
    after = from_cursor(cursor, int, UUID)
    found = views.page(resources.pool, tree, level=level, parent=parent, after=after, limit=limit + 1)
    last = found[limit - 1] if len(found) > limit else None
    items = [
        TreeNode(
            node_id=node.id,
            level=node.level,
            text=node.text,
            children_ids=node.children,
            parent_ids=node.parents,
            file_paths=node.paths,
        )
        for node in found[:limit]
    ]
    return Listing(items=items, next_cursor=last and to_cursor(last.level, last.id))


def _set_enabled(resources: Resources, tool: dict[str, Any], *, enabled: bool) -> None:
    config = RaptorConfig.model_validate(tool["config"].get("raptor") or {})
    if enabled:
        model_of(config, resources.settings.values(LlmOptions))
    if config.enabled != enabled:
        changed = config.model_copy(update={"enabled": enabled})
        tool_actions.set_raptor(resources.pool, tool["tool_id"], changed.model_dump(exclude_defaults=True))
    index_id = tool_actions.index_id(resources.pool, tool["tool_id"])
    trees.reconcile(resources.pool, index_id)


def _status(resources: Resources, tool: dict[str, Any]) -> RaptorStatus:
    tree = trees.of_tool(resources.pool, tool["tool_id"])
    if tree is None:
        return _no_tree()
    shape = views.shape(resources.pool, tree)
    summaries = sum(count for level, count in shape.levels if level > 0)
    total = sum(count for _, count in shape.levels)
    return RaptorStatus(
        has_index=tree.built_at is not None,
        total_nodes=total,
        leaf_nodes=total - summaries,
        summary_nodes=summaries,
        max_level=max((level for level, _ in shape.levels), default=0),
        levels=[level for level, _ in shape.levels],
        nodes_by_level=[TreeLevel(level=level, count=count) for level, count in shape.levels],
        last_build_time=tree.built_at and tree.built_at.astimezone(UTC),
        indexing_status=tree.status,
        progress=_progress(tree),
        stale=shape.stale,
        skipped=tree.skipped,
        tokens_in=tree.tokens_in,
        tokens_out=tree.tokens_out,
        requests=tree.requests,
        method=tree.config.cluster_method,
        model=tree.config.llm_model or resources.settings.default_llm_model,
        warning=tree.warning,
        error=tree.error,
        error_code=tree.error_code,
    )


def _no_tree() -> RaptorStatus:
    zero = dict.fromkeys(
        ("total_nodes", "leaf_nodes", "summary_nodes", "max_level", "stale", "tokens_in", "tokens_out", "requests"), 0
    )
    nothing = dict.fromkeys(("last_build_time", "method", "model", "warning", "error", "error_code"))
    return RaptorStatus.model_validate(
        {**zero, **nothing, "has_index": False, "levels": [], "nodes_by_level": [], "skipped": {}}
        | {"indexing_status": "none", "progress": 0.0}
    )


def _progress(tree: Tree) -> float:
    if tree.status == "indexed":
        return 1.0
    return round(min(MAX_PROGRESS, tree.done_summaries / max(1, tree.expected_summaries)), 4)


#: The same calls at other paths, where the id of a knowledge base is that of a tool.
aliases = APIRouter(prefix="/v1/knowledge-bases/{tool_id}/raptor", include_in_schema=False)
aliases.get("")(get_tree)
aliases.get("/status")(get_tree)
aliases.post("", status_code=202, dependencies=[needs_space])(build_tree)
aliases.post("/build", status_code=202, dependencies=[needs_space])(build_tree)
aliases.delete("", status_code=202)(delete_tree)

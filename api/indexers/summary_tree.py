"""The indexer `raptor`: a tree of summaries over the chunks."""

from __future__ import annotations

from datetime import UTC

from api.indexers import Build, Subject
from api.search.tree.answer import answer_by_tree
from schemas.summary_tree import RaptorConfig, RaptorEstimate, RaptorStatus, TreeLevel
from worker.embed import known_models
from worker.embed.known_models import KnownModel
from worker.embed.models import is_local
from worker.resources import Resources
from worker.state.index import tool_actions
from worker.state.tree import trees, views
from worker.state.tree.trees import Tree
from worker.tree.build_cost import cost
from worker.tree.llm_choice import LlmOptions, model_of, provider_of

#: Share of a build that is done before its end: the last step follows.
MAX_PROGRESS = 0.99

answer = answer_by_tree


def check(resources: Resources, config: RaptorConfig) -> None:
    """Raise `LlmNotConfigured` or `ModelNotAllowed` if no model can summarise."""
    model_of(config, resources.settings.values(LlmOptions))


def estimate(resources: Resources, subject: Subject) -> RaptorEstimate:
    """Estimate a build of the whole tree. What is cached costs nothing again."""
    config = subject.config.raptor
    options = resources.settings.values(LlmOptions)
    model = model_of(config, options)
    leaves, tokens = views.count_leaves(resources.pool, subject.index_id)
    expected = cost(config, leaves, tokens)
    free = is_local(model)
    known = KnownModel(input_price=0.0, output_price=0.0) if free else known_models.lookup_model(model)
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


def build(resources: Resources, subject: Subject, what: Build) -> None:
    """Make or change the tree as the config says. A build waits until no task works on the tool's index."""
    _reconcile(resources, subject)
    tree = trees.of_tool(resources.pool, subject.tool_id) if what != "due" else None
    if tree is not None:
        trees.request(resources.pool, tree.id, full=what == "full")


def status(resources: Resources, subject: Subject) -> RaptorStatus:
    """The tree that answers, and the progress of its newest build. Without a tree, every number is 0."""
    tree = trees.of_tool(resources.pool, subject.tool_id)
    if tree is None:
        return _no_tree()
    shape = views.count_nodes(resources.pool, tree)
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


def drop(resources: Resources, subject: Subject) -> None:
    """Delete the tree that no tool wants any more."""
    _reconcile(resources, subject)


def _reconcile(resources: Resources, subject: Subject) -> None:
    index_id = tool_actions.index_id(resources.pool, subject.tool_id)
    trees.reconcile(resources.pool, index_id or subject.index_id)


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

"""The indexer `chunks`: the index of a tool's folder, which every tool has."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from api.indexers import NO_ID, Build, Subject, remaining
from api.indexers.estimates import estimate_of
from api.indexers.model_choice import chosen_model
from api.search import pipeline
from api.search.text.metadata_filter import check_rules
from schemas.content.source import FLOAT32, AnySource, EmbedderProfile
from schemas.errors import Invalid, NotFound
from schemas.estimate import Estimate
from schemas.queries.search import MAX_NAMES
from schemas.reindex import Reindex
from schemas.status import Status
from schemas.tool import IndexSettings, Tool, ToolConfig
from worker import app as queue
from worker import dispatch
from worker.ignore import Rules
from worker.resources import Resources, chunk_settings, store_name
from worker.sources.registry import target_of
from worker.state.index import statuses, tool_actions, tools
from worker.state.index.statuses import TaskOfTool
from worker.state.index.tool_actions import ConfigChanged
from worker.state.index.tools import Index, NewIndex
from worker.state.open_work import UNWATCHED, UNWATCHED_SECONDS
from worker.stores import too_large

#: Fields of a config that lead to no other index. What holds of `metadata_from` is not for sidecars.
KEEP_INDEX = frozenset(
    {
        "metadata",
        "metadata_from",
        "rules",
        "max_cost_tokens",
        "auto_reindex",
        "watch",
        "every",
        "url_template",
        "raptor",
    }
)
#: Maximum characters of a pattern.
MAX_PATTERN_CHARACTERS = 4096

OVER_COST = (
    "The run stopped before it passed config.max_cost_tokens ({:,}); raise it, then retry to embed the other files."
)
WORDS_ONLY = "{:,} chunks are found by their words only; reindex, or retry, to embed them too."
CUT_TEXTS = (
    "Some texts were longer than the embedding model takes, so they were cut in smaller chunks; "
    "set a smaller config.chunk_size."
)

CODE_RENEWED = "Code is embedded again, with the name of its file in front. Other text costs nothing."
NOTHING_TO_RENEW = "Code of this index is embedded with the name of its file already, so nothing is renewed."

answer = pipeline.answer_query


def estimate(resources: Resources, subject: Subject) -> Estimate:
    """Estimate the first run over the folder, or the next one. Raises `EstimateBusy`, and what `index_for` raises."""
    tool = None if subject.tool_id == NO_ID else tools.get(resources.pool, subject.tool_id)
    index, _ = index_for(subject.project_id, subject.source, subject.config, resources, tool=tool)
    return estimate_of(index, resources)


def build(resources: Resources, subject: Subject, what: Build) -> None:
    """Index what changed in the folder, or all of it. Raises `NotFound`."""
    reindex(resources, subject.tool_id, Reindex(full=what == "full"))


def reindex(resources: Resources, tool_id: UUID, asked: Reindex) -> None:
    """Index what changed in the folder, or all of it, or what lies at some paths. Raises `NotFound`.

    A full run also gives the store the text in the form that new indexes have, and the model too if it renews texts.
    Then another index is built beside the present one, with the vectors of the texts that stay. Raises `Conflict` if
    texts are to be renewed while the tool changes to another index.
    """
    index = tools.index_of_tool(resources.pool, tool_id)
    if index is not None and asked.full and asked.paths is None:
        wanted = _rewritten(resources, index, asked)
        if (wanted.settings, wanted.text_key) != (index.settings, index.text_key):
            try:
                task_id = tool_actions.rebuild(
                    resources.pool, tool_id, wanted, base=index.id, renews_text=asked.renew_text
                )
            except ConfigChanged:
                # the tool changed to another index in the meantime, whose settings count
                reindex(resources, tool_id, asked)
                return
            if task_id is not None:
                queue.post_plan(task_id, tool_id)
            return
    dispatch.reindex(resources.pool, tool_id, full=asked.full, allow_removals=asked.allow_removals, paths=asked.paths)


def estimate_reindex(resources: Resources, tool_id: UUID, asked: Reindex) -> Estimate:
    """Estimate what `reindex` would cost. Raises `NotFound`, `EstimateBusy`, `ProjectBusy` or `SourceError`."""
    index = tools.index_of_tool(resources.pool, tool_id)
    if index is None:
        raise NotFound(tool_actions.GONE)
    found = estimate_of(_rewritten(resources, index, asked), resources, renewed=index)
    if not asked.renew_text:
        return found
    note = NOTHING_TO_RENEW if index.settings.file_stems else CODE_RENEWED
    return found.model_copy(update={"notes": [note, *found.notes]})


def _rewritten(resources: Resources, index: Index, asked: Reindex) -> NewIndex:
    """The index with the form of text that a full run gives it."""
    settings = index.settings.model_copy(update={"file_stems": True}) if asked.renew_text else index.settings
    return NewIndex(
        *(index.project_id, index.source, index.folder_node_id, settings),
        *(index.vector_store, index.keyword_index),
        namespace_prefix=resources.settings.namespace_prefix,
        text_key=resources.text_key_for(index.vector_store) if asked.full else index.text_key,
    )


def status(resources: Resources, subject: Subject) -> Status:
    """The progress of the newest task. Raises `NotFound`."""
    task = statuses.newest_of_tool(resources.pool, subject.tool_id)
    if task is None:
        raise NotFound(tool_actions.GONE)
    return shown_status(task)


def drop(resources: Resources, subject: Subject) -> None:
    """Delete the tool, and its index unless another tool shares it."""
    tools.delete(resources.pool, subject.tool_id)


def index_for(
    project_id: str, source: AnySource, config: ToolConfig, resources: Resources, *, tool: Tool | None = None
) -> tuple[NewIndex, str]:
    """Validate a tool's source and config. Returns the index it needs, and the tool's default name.

    Without `tool` the tool is new.

    Raises `Invalid`, `SourceError`, `ModelNotAllowed`, `ModelRefused` and `EmbeddingUnavailable`.
    """
    settings = resources.settings
    check_kept(source, config, resources)
    _check_bounds(config)
    target = target_of(resources.access(project_id), source)
    Rules(config.include, config.exclude)
    choice = chosen_model(resources, project_id, source, config)
    model = config.embedding_model or choice.model
    in_use = choice.model or (tool.config.embedding_model if tool else None)
    profile, explicit = resources.profile(model, config.dimensions, in_use=in_use)
    profile = _with_first_precision(resources, project_id, source, profile)
    store = store_name(settings)
    keywords = _keyword_index(resources, project_id, source, store)
    text_key = _text_key(resources, project_id, source, store)
    resources.store(store, keywords, text_key)
    index = IndexSettings(
        embedder=profile,
        explicit_dimensions=explicit,
        chunks=chunk_settings(settings, config.chunk_size, config.chunk_overlap, config.granularity),
        include=tuple(config.include),
        exclude=tuple(config.exclude),
        types=tuple(config.types),
        use_ignore_files=config.use_ignore_files,
        keep=tuple(sorted({*config.keep})),
        containers=tuple(sorted({*config.containers})),
        sidecars="sidecars" in config.metadata_from,
        max_file_bytes=settings.max_file_bytes,
        min_token_count=config.min_token_count,
        max_token_count=config.max_token_count,
        file_stems=_file_stems(resources, project_id, source, profile, tool),
        model_reason=choice.reason,
    )
    new_index = NewIndex(
        *(project_id, source, target.folder_node_id, index, store, keywords),
        namespace_prefix=settings.namespace_prefix,
        text_key=text_key,
    )
    return new_index, target.name


def keeps_index(config: ToolConfig, before: ToolConfig) -> bool:
    """Whether a changed config needs no other index, so that the source need not be read."""

    def of_index(each: ToolConfig) -> tuple[object, ...]:
        return each.model_dump(exclude={*KEEP_INDEX}), "sidecars" in each.metadata_from

    return of_index(config) == of_index(before)


def check_kept(source: AnySource, config: ToolConfig, resources: Resources) -> None:
    """Validate the part of a config that needs no other index. Raises `Invalid`."""
    _check_following(source, config, has_event_queue=resources.settings.s3_events_queue_url is not None)
    check_rules(config.metadata_view)


def _with_first_precision(
    resources: Resources, project_id: str, source: AnySource, profile: EmbedderProfile
) -> EmbedderProfile:
    """Return the profile with the precision of the source's first index, so that its vectors serve further ones."""
    if profile.precision == FLOAT32:
        return profile
    first = tools.first_precision(resources.pool, project_id, source, profile.model)
    return profile.model_copy(update={"precision": FLOAT32}) if first == FLOAT32 else profile


def _file_stems(
    resources: Resources, project_id: str, source: AnySource, profile: EmbedderProfile, tool: Tool | None
) -> bool:
    """Whether a new index embeds code with the names of files.

    By the same model, it does as the tool's own index, or for a new tool as the source's newest index, so that a
    changed config and a further tool cost nothing.
    """
    if tool is not None:
        for own in ([tool.updating.index] if tool.updating else []) + [tool.index]:
            if own.model == profile.model:
                return own.file_stems
    newest = tools.newest_file_stems(resources.pool, project_id, source, profile.model)
    return newest is None or newest


def _keyword_index(resources: Resources, project_id: str, source: AnySource, store: str) -> str:
    """The keyword index of a new index: that of the source's first index, so that further tools share it."""
    configured = resources.settings.keyword_index
    return configured or tools.first_keyword_index(resources.pool, project_id, source, store) or "store"


def _text_key(resources: Resources, project_id: str, source: AnySource, store: str) -> str | None:
    """The key of a new index's hashes.

    It is that of the source's newest index, unless VECTOR_STORE_TEXT asks for another form.
    """
    wanted = resources.text_key_for(store)
    newest = tools.newest_text_key(resources.pool, project_id, source, store)
    if newest is None:
        return wanted
    is_blind, configured = newest[0] is not None, resources.settings.vector_store_text
    return newest[0] if configured is None or is_blind == (configured == "blind") else wanted


def _check_bounds(config: ToolConfig) -> None:
    if config.max_token_count is not None and config.max_token_count < config.min_token_count:
        raise Invalid("max_token_count is below min_token_count; swap them.")
    for name in ("include", "exclude", "types"):
        values = getattr(config, name)
        if len(values) > MAX_NAMES or any(len(value) > MAX_PATTERN_CHARACTERS for value in values):
            raise Invalid(
                f"{name} accepts at most {MAX_NAMES:,} patterns of {MAX_PATTERN_CHARACTERS:,} characters; send fewer."
            )


def _check_following(source: AnySource, config: ToolConfig, *, has_event_queue: bool) -> None:
    if config.auto_reindex and not source.follows_edits:
        raise Invalid("auto_reindex works for nodes only; use `watch` for a local folder, or `every` for S3.")
    if config.watch and not source.is_watchable:
        raise Invalid(f"{source.title} does not report changes, so `watch` cannot work; use `every` instead.")
    if config.watch and source.needs_event_queue and not has_event_queue:
        raise Invalid(
            f"{source.title} reports changes to a queue only, so `watch` needs the setting S3_EVENTS_QUEUE_URL; "
            "set it, or use `every` instead."
        )


def shown_status(task: TaskOfTool) -> Status:
    """Complete the status of a task with its remaining time and all warnings."""
    over_cost = None if task.passed_limit is None else OVER_COST.format(task.passed_limit)
    size = too_large(task.vector_store, task.total_chunks, task.dimensions)
    is_unwatched = task.finished_at is None and task.unwatched_seconds > UNWATCHED_SECONDS
    unwatched = f"{UNWATCHED} The task goes on once they do." if is_unwatched else None
    cut_texts = CUT_TEXTS if task.cut_texts else None
    words_only = None
    if task.finished_at is not None and task.vectors_due:
        words_only = WORDS_ONLY.format(task.vectors_due)
    said = (over_cost, words_only, cut_texts, size, task.listing_warning, task.warning, unwatched)
    shown = task.model_copy()
    now = datetime.now(UTC)
    shown.eta_seconds = remaining.seconds(task, now)
    shown.words_eta_seconds = remaining.words_seconds(task, now)
    shown.warning = " ".join(filter(None, said)) or None
    return shown

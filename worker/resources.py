"""The open resources of a process, built from the settings on first use and therefore after any fork."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from contextlib import nullcontext
from copy import copy
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from uuid import UUID

from schemas.content.source import AnySource, ChunkSettings, EmbedderProfile, Granularity
from schemas.errors import (
    ContentsElsewhere,
    EmbeddingUnavailable,
    LlmUnavailable,
    ModelUnavailable,
    TextKeyMissing,
    VectorsElsewhere,
)
from schemas.tool import IndexSettings
from worker.embed import Embedder, litellm, provider
from worker.embed.fleet import FleetView
from worker.embed.models import (
    ProviderAccess,
    check_allowed,
    is_local,
    open_embedder,
    resolve,
    same_provider,
    tokenizer_for,
)
from worker.embed.pace import EmbeddingPace
from worker.embed.rate_limit import RateBudget
from worker.embed.rates import SharedRate
from worker.ignore import EVERYTHING, Rules, rules_of
from worker.machine.disk_space import DiskSpace, usual_reserve
from worker.machine.host import Host, this_host
from worker.machine.memory.gc_pause import collect_rarely
from worker.objects.object_store import ObjectStore, open_objects
from worker.sandbox.pool import PATIENT, HelperLimits, HelperPool, ProjectHelpers
from worker.settings import Settings
from worker.sources import Source
from worker.sources.indexed_folders import IndexedFolders
from worker.sources.kind import ContentAccess, SourceOptions
from worker.sources.opening import OpeningSource
from worker.sources.registry import open_source
from worker.state import text_keys
from worker.state.connections import BRIEF, SWEEP, WORK, BoundedConnection, ConnectionLimits
from worker.state.index import messages, turns
from worker.state.index.tools import Index
from worker.state.index.turns import Reach
from worker.state.pool import Pool, autocommit, open_pool
from worker.state.schema_version import SchemaGate, missing
from worker.state.store_directories import Connect, StoreDirectory
from worker.stores import OBJECTS, STORES, StoreOptions, default_store, directory_kinds
from worker.tokens.tokenizers import Tokenizer, cl100k
from worker.vectors import VectorStore
from worker.vectors.directory_store import DirectoryStore

if TYPE_CHECKING:
    from worker.vectors.blind import BlindKey

#: Maximum summary requests in flight of one process: the maximum of a tool's config.
MAX_SUMMARIES = 32


class Resources:
    """The one place that knows settings and implementations; it only constructs."""

    def __init__(
        self,
        settings: Settings,
        *,
        pool_size: int = 4,
        limits: ConnectionLimits = WORK,
        helper_limits: HelperLimits = PATIENT,
        gate: SchemaGate | None = None,
        host: Host | None = None,
    ) -> None:
        self.settings, self._gate, self.host = settings, gate, host or this_host()
        self._pool_size, self._limits, self._helper_limits = pool_size, limits, helper_limits
        self._lock = Lock()
        self._embedders: dict[tuple[EmbedderProfile, bool], Embedder] = {}
        self._paces: dict[EmbedderProfile, EmbeddingPace] = {}
        self._budgets: dict[str, RateBudget] = {}
        self._stores: dict[tuple[str, bool, str | None], VectorStore] = {}

    @cached_property
    def pool(self) -> Pool:
        """Connections to Postgres."""
        return open_pool(self.settings.database, max_size=self._pool_size, limits=self._limits, gate=self._gate)

    @cached_property
    def sweeping(self) -> Resources:
        """Return a copy with its own single Postgres connection, which waits for locks only briefly."""
        own = copy(self)
        own.__dict__["pool"] = open_pool(self.settings.session_url, max_size=1, limits=SWEEP)
        return own

    @cached_property
    def objects(self) -> ObjectStore:
        """The object store of node contents."""
        s = self.settings
        directory = self.directories[OBJECTS.name]
        return open_objects(s.s3_bucket, s.s3_endpoint_url, directory.path, self.space, directory.using)

    @cached_property
    def directories(self) -> Mapping[str, StoreDirectory]:
        """The directories of vector stores and of contents, by name."""
        return directories_of(self.settings, lambda: autocommit(self.pool))

    def refused(self) -> dict[str, str]:
        """Return the stores, and contents, whose work this process must leave to others, with the reasons."""
        is_in_bucket = bool(self.settings.s3_bucket)
        used = {name: each for name, each in self.directories.items() if name != OBJECTS.name or not is_in_bucket}
        return {name: reason for name, each in used.items() if (reason := each.refusal()) is not None}

    def reach(self, me: UUID | None = None) -> Reach:
        """Return the work that this process can do. The registry of hosts knows it as `me`."""
        return Reach(me, self.host.id, self.refused())

    def leave_if_out_of_reach(self, task_id: UUID) -> bool:
        """Leave a task to workers that see directories which this one does not. Returns whether it did.

        The task's status and the service's readiness name the refused directories.
        """
        reach = self.reach()
        if turns.is_in_reach(self.pool, task_id, reach):
            return False
        if reach.refused and messages.leave(self.pool, task_id, reach):
            for name, reason in reach.refused.items():
                self.directories[name].note(reason)
        return True

    @cached_property
    def helper_pool(self) -> HelperPool:
        """The helper processes for all work except whole files of a run."""
        s = self.settings
        return HelperPool(self._helper_limits, max_seconds=s.parse_seconds, memory_bytes=s.parse_memory_mb << 20)

    @property
    def home(self) -> Path:
        """The directory with all data of the installation."""
        return self.settings.foldex_home.absolute()

    @property
    def space(self) -> DiskSpace:
        """Free space on the disk of `home`."""
        return DiskSpace(self.home, usual_reserve(self.home))

    def source(self, project_id: str, source: AnySource, rules: Rules = EVERYTHING) -> Source:
        """Open the content behind a tool. Raises as `SourceKind.open` does."""
        return open_source(self.access(project_id), source, rules)

    def access(self, project_id: str) -> ContentAccess:
        """Return a project's access to content."""
        options = self.settings.values(SourceOptions)
        return ContentAccess(project_id, options, lambda: self.pool, lambda: self.objects, self.helpers(project_id))

    def source_of(self, index: Index, rules: Rules | None = None) -> Source:
        """Open the content behind an index, to which its own rules apply unless others are given.

        Raises `FolderElsewhere` if another machine indexed another folder.
        """
        source = self.source_with(index.project_id, index.source, index.settings, rules)
        self.folders.check(index)
        return source

    @cached_property
    def folders(self) -> IndexedFolders:
        """The local folders of this machine, as indexes know them."""
        return IndexedFolders(self.host, lambda: self.pool, self.source)

    def source_with(
        self, project_id: str, source: AnySource, settings: IndexSettings, rules: Rules | None = None
    ) -> Source:
        """Open the content that an index with these settings has. Raises as `SourceKind.open` does."""
        rules = rules or rules_of(settings)
        opened = self.source(project_id, source, rules)
        if not settings.containers:
            return opened
        return OpeningSource(opened, rules, settings.containers, settings.max_file_bytes, self.helpers(project_id))

    def helpers(self, project_id: str) -> ProjectHelpers:
        """Return the processes that parse a project's content."""
        return ProjectHelpers(self.helper_pool, project_id)

    def profile(
        self, model: str | None, dimensions: int | None, *, in_use: str | None = None
    ) -> tuple[EmbedderProfile, bool]:
        """Return a model's profile, checked against its provider, and whether its dimensions were requested explicitly.

        A tool keeps the model that it has `in_use`, even if that model is no longer allowed. Raises `ModelNotAllowed`,
        `ModelRefused`, or `EmbeddingUnavailable` if the provider does not answer.
        """
        s = self.settings
        name = model or s.default_embedding_model
        if name != in_use:
            check_allowed(name, default=s.default_embedding_model, patterns=s.allowed_models)
        explicit = dimensions if dimensions is not None else (s.embedding_dimensions if model is None else None)
        profile = resolve(name, explicit, self.access_to(name))
        return profile, explicit is not None

    def access_to(self, model: str) -> ProviderAccess:
        """Return the configured address and key for models of their provider; nothing for other models.

        That provider is the default model's. If the default model is local, it is the first other allowed model's.
        """
        s = self.settings
        remote = (name for name in (s.default_embedding_model, *(s.allowed_models or ())) if not is_local(name))
        if same_provider(model, next(remote, s.default_embedding_model)):
            return ProviderAccess(s.embedding_api_base, s.embedding_api_key)
        return ProviderAccess()

    def embedder(self, profile: EmbedderProfile, *, explicit_dimensions: bool, for_queries: bool = False) -> Embedder:
        """Return the embedder of a profile, opened once per process."""
        s = self.settings
        # what a provider's embedder learns about its model serves both
        key = profile, for_queries and is_local(profile.model)
        with self._lock:
            if key not in self._embedders:
                self._embedders[key] = open_embedder(
                    profile,
                    self.access_to(profile.model),
                    batch_size=s.embedding_batch_size,
                    explicit_dimensions=explicit_dimensions,
                    for_queries=for_queries,
                )
            return self._embedders[key]

    def pace(self, profile: EmbedderProfile) -> EmbeddingPace:
        """Return the recent speed of a profile's embedder in this process."""
        with self._lock:
            return self._paces.setdefault(profile, EmbeddingPace())

    def words_in_store(self, index: Index) -> bool:
        """Return whether the words of a chunk go to an index's store before its vector."""
        return self.settings.words_first == "store" or not STORES[index.vector_store].bills_writes

    def budget(self, profile: EmbedderProfile) -> RateBudget | None:
        """Return the budget that all workers share for a model, opened once per process; None for a local model."""
        s = self.settings
        if is_local(profile.model):
            return None
        return self._budget(
            profile.model,
            self.embedding_rate(profile.model),
            concurrency=s.embedding_concurrency,
            # the bulk worker's processes, and the one process of the fast worker that indexes
            processes=s.worker_concurrency + 1,
            variables="EMBEDDING_RPM or EMBEDDING_TPM",
            unavailable=EmbeddingUnavailable,
        )

    def llm_budget(self, model: str) -> RateBudget | None:
        """Return the budget that all workers share for summaries by a model, opened once per process."""
        if is_local(model):
            return None
        return self._budget(
            model,
            self.llm_rate(model),
            concurrency=MAX_SUMMARIES,
            processes=self.settings.worker_concurrency,
            variables="LLM_RPM or LLM_TPM",
            unavailable=LlmUnavailable,
        )

    def embedding_rate(self, model: str) -> SharedRate:
        """Return the rate that all workers share for an embedding model."""
        s = self.settings
        return SharedRate(f"{model} {_hashed(s.embedding_api_base)}", s.embedding_rpm, s.embedding_tpm)

    def llm_rate(self, model: str) -> SharedRate:
        """Return the rate that all workers share for summaries by a model."""
        s = self.settings
        return SharedRate(f"llm {model} {_hashed(s.llm_api_base)}", s.llm_rpm, s.llm_tpm)

    @cached_property
    def fleet_view(self) -> FleetView:
        """Return the usage of the whole fleet."""
        return FleetView(self.settings.redis_url)

    def _budget(
        self,
        model: str,
        shared: SharedRate,
        *,
        concurrency: int,
        processes: int,
        variables: str,
        unavailable: type[ModelUnavailable],
    ) -> RateBudget:
        with self._lock:
            if shared.name not in self._budgets:
                self._budgets[shared.name] = RateBudget(
                    model,
                    shared.name,
                    shared.rate,
                    redis_url=self.settings.redis_url,
                    concurrency=concurrency,
                    processes=processes,
                    variables=variables,
                    unavailable=unavailable,
                )
            return self._budgets[shared.name]

    def tokenizer(self, profile: EmbedderProfile) -> Tokenizer:
        """Return the model's own tokenizer if it ships offline, otherwise one that counts at least as many tokens."""
        return tokenizer_for(profile)

    def store_of(self, index: Index) -> VectorStore:
        """Return the vector store of an index, opened once per process. Raises `TextKeyMissing`."""
        return self.store(index.vector_store, index.keyword_index, index.text_key)

    def store(self, name: str, keyword_index: str, text_key: str | None = None) -> VectorStore:
        """Return a vector store, opened once per process. Without its `text_key` it can only delete.

        Raises `TextKeyMissing`.
        """
        key = (name, keyword_index == "store", text_key)
        with self._lock:
            if key not in self._stores:
                blind = None if text_key is None else self._text_key(text_key)
                store = STORES[name].open(self.settings.values(StoreOptions), key[1], blind)
                directory = self.directories.get(name)
                self._stores[key] = store if directory is None else DirectoryStore(store, directory.using)
            return self._stores[key]

    def text_key_for(self, store: str) -> str | None:
        """Return the id of the key for new indexes in a store; None if it gets readable text.

        The first index that needs a key makes one, unless BLIND_TOKEN_KEY is set.
        """
        if not STORES[store].is_foreign or self.settings.vector_store_text == "plain":
            return None
        from worker.vectors.blind import BlindKey

        return BlindKey.of(self.settings.blind_token_key or text_keys.keep(self.pool)).id

    def _text_key(self, id_: str) -> BlindKey:
        from worker.vectors.blind import BlindKey

        secrets = filter(None, (self.settings.blind_token_key, text_keys.read_kept(self.pool)))
        for key in map(BlindKey.of, secrets):
            if key.id == id_:
                return key
        raise TextKeyMissing(id_)


def directories_of(settings: Settings, connect: Connect) -> dict[str, StoreDirectory]:
    """Return the directories of vector stores and of contents, by name."""
    home = settings.foldex_home.absolute()
    return {kind.name: StoreDirectory(kind, home / name, home, connect) for name, kind in directory_kinds()}


def check_directories(settings: Settings) -> None:
    """Make sure, at the start of a process, that it sees the directories that new work needs.

    Neither a deleted one nor a database that lacks migrations prevents the start. Raises `VectorsElsewhere`,
    `ContentsElsewhere`, and `SchemaBehind` for a database older than the first release.
    """
    needed = {store_name(settings), *(() if settings.s3_bucket else (OBJECTS.name,))}
    with BoundedConnection.open(settings.session_url, BRIEF) as connection:
        connection.autocommit = True
        if missing(connection):
            return
        for name, directory in directories_of(settings, lambda: nullcontext(connection)).items():
            try:
                if name in needed:
                    directory.check()
            except (VectorsElsewhere, ContentsElsewhere) as error:
                if error.retry_after is None:
                    raise


def _hashed(address: str | None) -> str:
    """Hash an address within a key that others can read, because it may contain a password."""
    return sha256((address or "").encode()).hexdigest()[:16]


def store_name(settings: Settings) -> str:
    """Return the vector store of new indexes."""
    return settings.vector_store or default_store(settings.values(StoreOptions))


def chunk_settings(
    settings: Settings, size: int | None, overlap: int | None, granularity: Granularity | None
) -> ChunkSettings:
    """Return chunk sizes from a tool's parameters and the settings; the overlap is at most half the size."""
    if settings.chunk_size_chars is not None and size is None:
        size, unit = settings.chunk_size_chars, "characters"
        overlap = overlap if overlap is not None else settings.chunk_overlap_chars or 0
    else:
        size, unit = size or settings.chunk_size_tokens, "tokens"
        overlap = overlap if overlap is not None else settings.chunk_overlap_tokens
    return ChunkSettings.model_validate(
        {
            "unit": unit,
            "size": size,
            "overlap": min(overlap, size // 2),
            "threshold": settings.chunk_threshold_chars or 0,
            "granularity": granularity or ChunkSettings().granularity,
        }
    )


def preload(settings: Settings) -> None:
    """Import modules of tasks before the fork: once instead of once per process, in memory that all processes share.

    It opens nothing, because connections do not survive a fork.
    """
    if not is_local(settings.default_embedding_model):
        _warm_clients(settings)
        cl100k()
    preload_store(settings)
    import_store_dependencies(settings)
    # a collection in a child would write to each object, and so copy the shared pages
    gc.collect()
    gc.freeze()
    collect_rarely()


def _warm_clients(settings: Settings) -> None:
    """Import the clients of all models that tasks may use. Only some need LiteLLM, whose import takes seconds."""
    embedding = [settings.default_embedding_model, *(settings.allowed_models or ())]
    for model in embedding:
        if not is_local(model):
            provider.warm(model)
    if settings.default_llm_model and not is_local(settings.default_llm_model):
        litellm.warm()


def preload_store(settings: Settings) -> None:
    """Import the store's client."""
    STORES[store_name(settings)].import_client()


def import_store_dependencies(settings: Settings) -> None:
    """Import the dependencies of the store's client, as far as they survive a fork."""
    STORES[store_name(settings)].import_before_fork()

"""What a process holds open, built from the settings on first use and therefore after any fork."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from threading import Lock

from pydantic import TypeAdapter

from schemas.errors import FolderGone, Invalid, SourceRefused
from schemas.source import AnySource, ChunkSettings, EmbedderProfile, LocalSource, S3Source
from worker.embed import Embedder
from worker.embed.circuit import Rate
from worker.embed.models import (
    Access,
    check_allowed,
    is_local,
    open_embedder,
    resolve,
    same_provider,
    tokenizer_for,
)
from worker.embed.rate_limit import Budget
from worker.ignore import EVERYTHING, Rules, rules_of
from worker.machine.disk_space import Space
from worker.machine.gc_pause import uncollected
from worker.machine.paths import real_path
from worker.objects.object_store import Objects, open_objects
from worker.settings import LOCAL_MODEL, Settings
from worker.sources import Source
from worker.state.access import grants
from worker.state.index.tools import Index
from worker.state.postgres import SWEEP, WORK, Limits, Pool, open_pool
from worker.tokens.tokenizers import Tokenizer, cl100k
from worker.vectors import VectorStore

#: Every vector store that an index can be in.
STORES = ("turbopuffer", "lancedb")
#: Bucket names, and the suffixes of access point aliases.
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_ALIASES = ("-s3alias", "--ol-s3")

_SOURCE: TypeAdapter[AnySource] = TypeAdapter(AnySource)


class Resources:
    """The one place that knows settings and implementations; it only constructs."""

    def __init__(self, settings: Settings, *, pool_size: int = 4, limits: Limits = WORK) -> None:
        self.settings = settings
        self._pool_size, self._limits = pool_size, limits
        self._lock = Lock()
        self._embedders: dict[EmbedderProfile, Embedder] = {}
        self._budgets: dict[str, Budget] = {}
        self._stores: dict[tuple[str, bool], VectorStore] = {}

    @cached_property
    def pool(self) -> Pool:
        """Connections to Postgres."""
        return open_pool(self.settings.database_url, max_size=self._pool_size, limits=self._limits)

    @cached_property
    def sweeping(self) -> Resources:
        """A copy with its own single Postgres connection, which waits for locks only briefly."""
        own = copy(self)
        own.__dict__["pool"] = open_pool(self.settings.database_url, max_size=1, limits=SWEEP)
        return own

    @cached_property
    def objects(self) -> Objects:
        """The object store of node contents."""
        s = self.settings
        return open_objects(s.s3_bucket, s.s3_endpoint_url, self.home / "objects")

    @property
    def home(self) -> Path:
        """Directory of everything the installation keeps."""
        return self.settings.foldex_home.absolute()

    @property
    def space(self) -> Space:
        """Free space on the disk of `home`."""
        return Space(self.home, self.settings.disk_reserve_mb << 20)

    def source(self, project_id: str, source: AnySource, rules: Rules = EVERYTHING) -> Source:
        """The content behind a tool.

        Raises `SourceRefused` for the places that hold every project's content. Raises `FolderGone` for a place that
        the project was not granted, as if it did not exist.
        """
        if isinstance(source, LocalSource):
            from worker.sources.local import LocalFolder

            roots = self._local_roots(project_id, source)
            # `Path.resolve` fails on a link that points to itself
            if Path(real_path(source.path)).is_relative_to(real_path(self.home)):
                raise SourceRefused("FOLDEX_HOME holds every project's content and is no folder to index.")
            return LocalFolder(source.path, roots, rules, closed=self.home)
        if isinstance(source, S3Source):
            from worker.sources.s3 import S3Prefix

            self._check_objects(project_id, source)
            return S3Prefix(source.bucket, source.prefix, self.settings.s3_endpoint_url, rules)
        from worker.sources.nodes import NodeTree

        return NodeTree(self.pool, self.objects, project_id, source.node_id, rules)

    def _local_roots(self, project_id: str, source: LocalSource) -> Sequence[Path]:
        """Return the roots below which a project may read.

        Raises `FolderGone` if the source lies below none of them.
        """
        roots: Sequence[Path] = self.settings.local_source_roots
        if self.settings.auth == "on":
            roots = grants.folders(self.pool, project_id, roots)
            if not grants.is_below(source.path, roots):
                raise _not_granted(project_id, source.path)
        return roots

    def _check_objects(self, project_id: str, source: S3Source) -> None:
        """Raise `SourceRefused` or `FolderGone` unless the project may read this bucket's prefix."""
        if self.settings.auth == "on" and not grants.may_read_objects(self.pool, project_id, source):
            raise _not_granted(project_id, f"s3://{source.bucket}/{source.prefix}")
        if source.bucket == self.settings.s3_bucket:
            raise SourceRefused("S3_BUCKET holds every project's content and is no folder to index.")
        if not _BUCKET.fullmatch(source.bucket) or source.bucket.endswith(_ALIASES):
            raise SourceRefused("Name a bucket itself; an access point could be another name of S3_BUCKET.")

    def source_of(self, index: Index) -> Source:
        """The content behind an index."""
        source = _SOURCE.validate_python(index.source)
        return self.source(index.project_id, source, rules_of(index.settings))

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
        profile = resolve(name, explicit, self._access(name), local_model_dir=s.local_model_dir)
        return profile, explicit is not None

    def _access(self, model: str) -> Access:
        """Return the configured address and key to models of their provider, and to no others.

        That provider is the default model's. If the default model is local, it is that of the first other allowed
        model.
        """
        s = self.settings
        remote = (name for name in (s.default_embedding_model, *(s.allowed_models or ())) if not is_local(name))
        if same_provider(model, next(remote, s.default_embedding_model)):
            return Access(s.embedding_api_base, s.embedding_api_key)
        return Access()

    def embedder(self, profile: EmbedderProfile, *, explicit_dimensions: bool) -> Embedder:
        """Return the embedder of a profile, opened once per process."""
        s = self.settings
        with self._lock:
            if profile not in self._embedders:
                self._embedders[profile] = open_embedder(
                    profile,
                    self._access(profile.model),
                    batch_size=s.embedding_batch_size,
                    explicit_dimensions=explicit_dimensions,
                    local_model_dir=s.local_model_dir,
                )
            return self._embedders[profile]

    def budget(self, profile: EmbedderProfile) -> Budget | None:
        """Return the budget that all workers share for a model, opened once per process; None for a local model."""
        s = self.settings
        if is_local(profile.model):
            return None
        with self._lock:
            if profile.model not in self._budgets:
                # an address may hold a password, and others can read this key
                address = sha256((s.embedding_api_base or "").encode()).hexdigest()[:16]
                self._budgets[profile.model] = Budget(
                    profile.model,
                    f"{profile.model} {address}",
                    Rate.per_minute(s.embedding_rpm, s.embedding_tpm),
                    redis_url=s.redis_url,
                    concurrency=s.embedding_concurrency,
                    # the bulk worker's processes, and the one process of the fast worker that indexes
                    processes=s.worker_concurrency + 1,
                )
            return self._budgets[profile.model]

    def tokenizer(self, profile: EmbedderProfile) -> Tokenizer:
        """The model's own tokenizer if it ships offline, otherwise one that counts at least as many tokens."""
        return tokenizer_for(profile, self.settings.local_model_dir)

    def store(self, name: str, keyword_index: str) -> VectorStore:
        """Return a vector store, opened once per process."""
        key = (name, keyword_index == "store")
        with self._lock:
            if key not in self._stores:
                self._stores[key] = self._open_store(*key)
            return self._stores[key]

    def _open_store(self, name: str, has_keywords: bool) -> VectorStore:
        s = self.settings
        if name == "lancedb":
            from worker.vectors.lance.store import LanceStore

            return LanceStore(self.home / "lancedb", has_keywords=has_keywords)
        from worker.vectors.turbopuffer import TurbopufferStore

        if not s.turbopuffer_api_key:
            raise Invalid("TURBOPUFFER_API_KEY is not set; set it, or VECTOR_STORE=lancedb.")
        return TurbopufferStore(
            s.turbopuffer_api_key,
            region=s.turbopuffer_region,
            base_url=s.turbopuffer_base_url,
            has_keywords=has_keywords,
        )


def _not_granted(project_id: str, place: str) -> FolderGone:
    return FolderGone(
        f"There is no {place!r} that project {project_id!r} may read; check the place, or have the operator grant it "
        "with `foldex grants add`."
    )


def store_name(settings: Settings) -> str:
    """The vector store of new indexes."""
    return settings.vector_store or ("turbopuffer" if settings.turbopuffer_api_key else "lancedb")


def keyword_index(settings: Settings) -> str:
    """Where new indexes keep their keywords."""
    return settings.keyword_index or ("postgres" if store_name(settings) == "turbopuffer" else "store")


def chunk_settings(settings: Settings, size: int | None, overlap: int | None) -> ChunkSettings:
    """Chunk sizes from a tool's parameters and the settings; the overlap is at most half the size."""
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
        }
    )


def preload(settings: Settings) -> None:
    """Import what tasks need before the fork: once instead of once per process, in memory that all processes share.

    It opens nothing, because connections do not survive a fork. It does not import LanceDB itself, which starts a
    thread, but imports LanceDB's dependencies, which take most of the time.
    """
    if settings.default_embedding_model != LOCAL_MODEL:
        from worker.embed.litellm import warm

        warm()
        cl100k()
    preload_store(settings)
    if store_name(settings) == "lancedb":
        with uncollected():
            import lance_namespace  # noqa: F401 - hundreds of models, which it builds on import
            import pyarrow.compute
            import pyarrow.dataset  # noqa: F401 - preloaded


def preload_store(settings: Settings) -> None:
    """Import the store's client.

    If two threads import it and LiteLLM at once, one may see a half-initialized module.
    """
    if store_name(settings) == "turbopuffer":
        import turbopuffer  # noqa: F401 - preloaded

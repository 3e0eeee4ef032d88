"""The vector stores, one row each. Nothing else names them, except the database's CHECK of `vector_store`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import ContentsElsewhere, Invalid, VectorsElsewhere
from worker.machine.memory.api_memory import ApiMemory
from worker.machine.memory.gc_pause import without_garbage_collection
from worker.objects.directory_objects import object_path
from worker.state.store_directories import DirectoryKind

if TYPE_CHECKING:
    # they load numpy, which most commands never need
    from worker.vectors import VectorStore
    from worker.vectors.blind import BlindKey

#: Directory of LanceDB's tables in FOLDEX_HOME.
_LANCE_DIRECTORY = "lancedb"
#: Directory of the contents of nodes in FOLDEX_HOME, unless a bucket is configured.
OBJECTS_DIRECTORY = "objects"
OBJECTS = DirectoryKind(
    "objects",
    "contents",
    expected="contents",
    holds=lambda directory, key: object_path(directory, key).exists(),
    error=ContentsElsewhere,
    instead="set S3_BUCKET",
    is_rebuilt=False,
)
#: Chunks of a folder that LanceDB searches quickly. With half as many, a filter that half of them pass takes 2 s.
LANCE_CHUNKS = 2_000_000
#: Rows and bytes that Turbopuffer accepts in a namespace, and bytes of a row besides its vector: attributes and hashes.
TURBOPUFFER_ROWS, TURBOPUFFER_BYTES, ROW_BYTES = 500_000_000, 1_000_000_000_000, 700
#: Share of these limits at which a folder's status begins to warn. Beyond the limits, writes fail.
FULL_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The settings that stores need, by their names in `worker.settings`."""

    foldex_home: Path
    api_processes: int
    api_memory_mb: int
    turbopuffer_api_key: str | None
    turbopuffer_region: str
    turbopuffer_base_url: str | None


def _nothing() -> None:
    """Import nothing."""


def _holds_nothing(_directory: Path, _namespace: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class StoreKind:
    """Facts about a store before it is opened."""

    #: Opens the store. The flag is its `has_keywords`; with a key it gets keyed hashes of words, names and paths.
    open: Callable[[StoreOptions, bool, BlindKey | None], VectorStore]
    #: Returns whether the options have all that the store needs; the first such row is the default.
    is_configured: Callable[[StoreOptions], bool]
    #: Returns the chunks, by dimensions, that a folder may have before users are warned.
    most_chunks: Callable[[int], int]
    #: The warning, with `most` and the folder's `chunks`.
    warning: str
    #: Imports the client at the start of the API and of workers.
    import_client: Callable[[], None] = _nothing
    #: Imports more before workers fork. It opens nothing and starts no thread.
    import_before_fork: Callable[[], None] = _nothing
    #: Whether a third party operates it. Then it can get keyed hashes instead of readable text, and does by default.
    is_foreign: bool = False
    #: Whether each byte written is paid for, so that a row is written once, with its vector.
    bills_writes: bool = False
    #: Name of the store's directory in FOLDEX_HOME; None if it has none.
    directory: str | None = None
    #: Returns whether that directory has a namespace.
    holds: Callable[[Path, str], bool] = _holds_nothing


def too_large(store: str, chunks: int, dimensions: int) -> str | None:
    """Return the remedy for a folder with too many chunks for its store; None if it has few enough."""
    kind = STORES[store]
    most = kind.most_chunks(dimensions)
    return kind.warning.format(most=most, chunks=chunks) if chunks > most else None


def _most_in_turbopuffer(dimensions: int) -> int:
    of_bytes = TURBOPUFFER_BYTES // (4 * dimensions + ROW_BYTES)
    return int(FULL_SHARE * min(TURBOPUFFER_ROWS, of_bytes))


def default_store(options: StoreOptions) -> str:
    """Return the store of new indexes unless VECTOR_STORE names one."""
    return next(name for name, kind in STORES.items() if kind.is_configured(options))


def store_directories() -> frozenset[str]:
    """Return the names of the directories of all stores in FOLDEX_HOME."""
    return frozenset(kind.directory for kind in STORES.values() if kind.directory is not None)


def directory_kinds() -> Iterator[tuple[str, DirectoryKind]]:
    """Return the directories in FOLDEX_HOME that all processes must share, by name, with their kinds."""
    for name, kind in STORES.items():
        if kind.directory is not None:
            yield (
                kind.directory,
                DirectoryKind(
                    name,
                    "vectors",
                    expected="vectors",
                    holds=kind.holds,
                    error=VectorsElsewhere,
                    instead="use Turbopuffer",
                    is_rebuilt=True,
                ),
            )
    yield OBJECTS_DIRECTORY, OBJECTS


def _open_turbopuffer(options: StoreOptions, has_keywords: bool, text_key: BlindKey | None) -> VectorStore:
    from worker.vectors.turbopuffer import TurbopufferStore

    if not options.turbopuffer_api_key:
        raise Invalid("TURBOPUFFER_API_KEY is not set; set it, or set VECTOR_STORE=lancedb.")
    return TurbopufferStore(
        options.turbopuffer_api_key,
        region=options.turbopuffer_region,
        base_url=options.turbopuffer_base_url,
        has_keywords=has_keywords,
        text_key=text_key,
        processes=options.api_processes,
    )


def _import_turbopuffer() -> None:
    # if two threads import it and LiteLLM at once, one may see a half-initialized module
    import turbopuffer  # noqa: F401 - preloaded


def _open_lance(options: StoreOptions, has_keywords: bool, _text_key: BlindKey | None) -> VectorStore:
    from worker.vectors.lance.store import LanceStore

    directory = options.foldex_home.absolute() / _LANCE_DIRECTORY
    memory = ApiMemory(options.api_memory_mb << 20)
    return LanceStore(
        directory,
        has_keywords=has_keywords,
        word_bytes=memory.store_words,
        table_bytes=memory.store_tables,
        vector_bytes=memory.store_vectors,
    )


def _import_lance_dependencies() -> None:
    import worker.vectors.lance  # noqa: F401 - first, as it halves what the next import takes

    # LanceDB itself starts a thread on import; its dependencies take most of the time
    with without_garbage_collection():
        import lance_namespace  # noqa: F401 - hundreds of models, which it builds on import
        import pyarrow.compute
        import pyarrow.dataset  # noqa: F401 - preloaded


#: Stores by the name that VECTOR_STORE and the database give them; in order of preference.
STORES: dict[str, StoreKind] = {
    "turbopuffer": StoreKind(
        _open_turbopuffer,
        is_configured=lambda options: bool(options.turbopuffer_api_key),
        most_chunks=_most_in_turbopuffer,
        warning="Above {most:,} chunks of this model a folder comes near to the limits of turbopuffer, and this folder "
        "has {chunks:,}; split it before writes fail.",
        import_client=_import_turbopuffer,
        is_foreign=True,
        bills_writes=True,
    ),
    "lancedb": StoreKind(
        _open_lance,
        is_configured=lambda _: True,
        most_chunks=lambda _: LANCE_CHUNKS,
        warning="Searches are slow above {most:,} chunks in lancedb, and this folder has {chunks:,}; "
        "split it, or set VECTOR_STORE=turbopuffer and create the tool again.",
        import_before_fork=_import_lance_dependencies,
        directory=_LANCE_DIRECTORY,
        holds=lambda directory, namespace: (directory / f"{namespace}.lance").exists(),
    ),
}

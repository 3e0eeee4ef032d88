"""The interface to a kind of source: opening it within a project's grants, and addresses of its files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from schemas.content.source import AnySource
from schemas.errors import FolderGone, SourceError
from worker.ignore import Rules
from worker.machine.named_folders import named_folders, named_folders_file
from worker.machine.paths import real_path
from worker.objects.object_store import ObjectStore
from worker.sandbox.pool import ProjectHelpers
from worker.sources import Source
from worker.sources.changes_seen import Followed
from worker.sources.event_batches import BucketEvents
from worker.state.index.changes import WatchedIndex
from worker.state.index.tools import hashed
from worker.state.pool import Pool

Model_contra = TypeVar("Model_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The settings that sources need, by their names in `worker.settings`."""

    auth: Literal["on", "off"]
    foldex_home: Path
    local_source_roots: list[Path]
    s3_bucket: str | None
    s3_endpoint_url: str | None

    @property
    def home(self) -> Path:
        """The directory with all data of the installation."""
        return self.foldex_home.absolute()

    @property
    def local_roots(self) -> list[str]:
        """Real paths below which folders can be indexed; read each time, as the command line adds some."""
        roots = [str(root) for root in named_folders(named_folders_file(self.home))]
        for root in self.local_source_roots:
            with suppress(FolderGone):
                roots.append(real_path(root))
        return roots


@dataclass(frozen=True, slots=True)
class ContentAccess:
    """A project's access to content. `pool` and `objects` connect on first use, and `helpers` start on first use."""

    project_id: str
    options: SourceOptions
    pool: Callable[[], Pool]
    objects: Callable[[], ObjectStore]
    helpers: ProjectHelpers


@dataclass(frozen=True, slots=True)
class WatchAccess:
    """The dependencies of a folder's watch. `wake` is called for each change. `bucket_events`: None without a queue."""

    content: ContentAccess
    wake: Callable[[], None]
    bucket_events: BucketEvents | None


@dataclass(frozen=True, slots=True)
class IndexedTarget:
    """The target of a tool: `folder_node_id` identifies a folder, and is None for a single file. `name` is shown."""

    folder_node_id: str | None
    name: str


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A file or folder at a path. `key` is a single file's key in `source`, None for a folder.

    The address of a file is unique in the project, whichever source lists the file. "/" separates its parts. `resolve`
    is set if only a slow request can find out what is there. It returns None if nothing can be read, and raises
    `SourceError` if that is unknown for now.
    """

    address: str
    source: AnySource
    key: bytes | None
    resolve: Callable[[], SourceLocation | None] | None = None


class SourceKind(Protocol[Model_contra]):
    """The operations of one kind of source. Implementations hold no state."""

    def open(self, access: ContentAccess, source: Model_contra, rules: Rules) -> Source:
        """Open the content of a source.

        Raises `SourceRefused` for the places that hold every project's content. Raises `FolderGone` for a place that
        the project was not granted, as if it did not exist.
        """
        ...

    def target(self, access: ContentAccess, source: Model_contra) -> IndexedTarget:
        """Check a new tool's source. Raises `NotFound`, `Invalid` or `SourceError` if it cannot be indexed."""
        ...

    def address_prefix(self, address: str | None) -> str:
        """Return the prefix that turns a file's id path into its address; `address` is the address of its source."""
        ...

    def addresses(self, access: ContentAccess, sources: Sequence[Model_contra]) -> list[str | None]:
        """Return the address of each source; None if it is gone or only a part of a file.

        It never shows the target of a place that the project may not read.
        """
        ...

    def locate(self, access: ContentAccess, path: str) -> list[SourceLocation] | None:
        """Return the possible locations for a path that a caller names; None if another kind may know it.

        Raises `SourceError` if that is unknown for now.
        """
        ...

    def watch(self, access: WatchAccess, source: Model_contra, index: WatchedIndex) -> Followed | None:
        """Start to watch the source of an index; None if this installation cannot notice its changes."""
        ...


def outside_target(source: AnySource, place: str, opened: Callable[[], Source]) -> IndexedTarget:
    """Return the target of a tool over content outside of Foldex, which may be unavailable. Raises `SourceError`."""
    try:
        opened().check()
        name = place.rstrip("/").rsplit("/", 1)[-1] or place
    except SourceError as error:
        if not error.retryable:
            raise
        # the source may be available again by the time a worker lists it
        name = place
    return IndexedTarget(hashed(f"{source.kind}:{place}"), name)


def not_granted(access: ContentAccess, place: str) -> FolderGone:
    """Return the error for a place that the project may not read."""
    return FolderGone(
        f"{place!r} does not exist, or project {access.project_id!r} may not read it; check it, or ask the operator to "
        "grant it with `foldex grants add`."
    )


def raise_if_temporary(error: SourceError) -> None:
    """Raise an error again if the path is not its cause."""
    if error.retryable:
        raise error

"""The states of a claimed file from claim to outcome. Each step takes a state and returns the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple
from uuid import UUID

from schemas.content.document import NO_PROPERTIES, CodeDefinition, CodeReference, DocumentProperties
from schemas.content.metadata import Value
from schemas.errors import FileError
from schemas.reason import FileStatus
from worker.state.index.chunks import PlacedChunk
from worker.state.index.files import FileClaim
from worker.tokens import keywords
from worker.tokens.keywords import Keywords
from worker.tokens.languages import DEFAULT
from worker.vectors import Vector


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The facts that reading a file's content has found so far."""

    type: str | None
    stamp: str | None = None
    fingerprint: str | None = None
    mime: str | None = None
    is_binary: bool | None = None
    language: str | None = None
    words_language: str = DEFAULT
    properties: DocumentProperties = NO_PROPERTIES
    note: str | None = None
    #: Metadata by its origin: `front_matter`, `s3` or `sidecars`.
    stated: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreparedFile:
    """A file cut into chunks. `live` has the ids of chunks that are already live and are not written again.

    Only words find a file that is not `embedded`. `drops_vectors`: the file replaces live chunks that have vectors, so
    these stay until the new chunks have vectors too. `read_words` extracts the words of its chunks, if that was
    prepared.
    """

    claim: FileClaim
    facts: FileFacts
    chunks: Sequence[PlacedChunk]
    embedded: bool
    definitions: Sequence[CodeDefinition] = ()
    references: Sequence[CodeReference] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    live: frozenset[UUID] = frozenset()
    drops_vectors: bool = False
    read_words: Callable[[str], str] | None = None
    status: ClassVar = FileStatus.INDEXED
    keeps_live: ClassVar = False

    @property
    def new(self) -> Sequence[PlacedChunk]:
        """The chunks to write."""
        return [chunk for chunk in self.chunks if chunk.id not in self.live] if self.live else self.chunks

    @property
    def may_lack_vectors(self) -> bool:
        """Whether its words may become live before its vectors without any loss to search."""
        return not self.drops_vectors

    @property
    def moved(self) -> bool:
        """Whether the stored locations and words of live chunks must be rewritten."""
        return _moved(self.claim, self.facts)


@dataclass(frozen=True, slots=True)
class UnchangedFile:
    """A file whose live chunks stay. The `lost` chunks lack vectors and are written again."""

    claim: FileClaim
    facts: FileFacts
    timings: Mapping[str, float] = field(default_factory=dict)
    lost: Sequence[PlacedChunk] = ()
    status: ClassVar = FileStatus.INDEXED
    keeps_live: ClassVar = True
    may_lack_vectors: ClassVar = True

    @property
    def embedded(self) -> bool:
        """Whether its chunks have vectors."""
        return self.claim.live_embedded

    @property
    def new(self) -> Sequence[PlacedChunk]:
        """The chunks to write."""
        return self.lost

    @property
    def moved(self) -> bool:
        """Whether the stored locations and words of live chunks must be rewritten."""
        return _moved(self.claim, self.facts)


@dataclass(frozen=True, slots=True)
class RemovedFile:
    """A file that vanished from its source; its live chunks are deleted."""

    claim: FileClaim
    status: ClassVar = FileStatus.REMOVED
    keeps_live: ClassVar = False
    embedded: ClassVar = False
    moved: ClassVar = False
    may_lack_vectors: ClassVar = False
    new: ClassVar[Sequence[PlacedChunk]] = ()
    timings: ClassVar[Mapping[str, float]] = {}

    @property
    def facts(self) -> FileFacts:
        """Return empty facts, because the file is not read."""
        return FileFacts(self.claim.type)


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A file with a failure instead of chunks. `new` are live chunks that got their vectors nevertheless."""

    claim: FileClaim
    facts: FileFacts
    failure: FileError
    timings: Mapping[str, float] = field(default_factory=dict)
    new: Sequence[PlacedChunk] = ()
    embedded: ClassVar = False
    moved: ClassVar = False
    may_lack_vectors: ClassVar = False

    @property
    def status(self) -> FileStatus:
        """The status recorded in the file's row."""
        return self.failure.reason.status

    @property
    def keeps_live(self) -> bool:
        """Whether its live chunks stay searchable. The chunks of a skipped file are deleted."""
        return self.status is FileStatus.FAILED


File = PreparedFile | UnchangedFile | RemovedFile | FailedFile


class ProviderUsage(NamedTuple):
    """Provider usage of a file that is not recorded in a row yet. It counts even if the file then fails."""

    chunks: int
    tokens: int


UNPAID = ProviderUsage(chunks=0, tokens=0)


@dataclass(frozen=True, slots=True)
class EmbeddedFile:
    """A file on its way to its outcome, with the known vectors of its new chunks.

    `timings` has the seconds of the steps after the preparation. `is_refused`: the provider refuses a text of a file
    that may lack vectors. Its words become live first, and the next claim records the refusal. `words` holds the words
    of chunks whose rows this worker writes twice, first without vectors; None if it writes them once.
    """

    state: File
    vectors: Mapping[UUID, Vector] = field(default_factory=dict)
    paid: ProviderUsage = UNPAID
    timings: Mapping[str, float] = field(default_factory=dict)
    is_refused: bool = False
    words: dict[UUID, Keywords] | None = None

    @property
    def claim(self) -> FileClaim:
        """The file's claim."""
        return self.state.claim

    @property
    def lacking(self) -> Sequence[PlacedChunk]:
        """The chunks that still need a vector."""
        new, vectors = self.state.new, self.vectors
        # hashing a `UUID` takes long, and at first no chunk has a vector
        return [chunk for chunk in new if chunk.embedded and not (vectors and chunk.id in vectors)]

    @property
    def complete(self) -> bool:
        """Whether every chunk has its vector."""
        return not self.lacking

    @property
    def has_early_words(self) -> bool:
        """Whether its words may become live before its vectors and are not live yet."""
        return self.state.may_lack_vectors and not self.claim.awaits_vectors

    @property
    def written(self) -> Sequence[PlacedChunk]:
        """The chunks whose rows are written now: all new ones, except those whose words are live already."""
        if isinstance(self.state, UnchangedFile) and self.claim.awaits_vectors:
            return [chunk for chunk in self.state.new if chunk.id in self.vectors]
        return self.state.new

    @property
    def status(self) -> FileStatus:
        """The status recorded in the file's row. A file that lacks vectors waits for its next claim."""
        return self.state.status if self.complete else FileStatus.PENDING


def failed(file: File, failure: FileError) -> FailedFile:
    """Return the file with a failure instead of chunks."""
    return FailedFile(file.claim, file.facts, failure, file.timings)


def _moved(claim: FileClaim, facts: FileFacts) -> bool:
    """Return whether the stored rows of a file's chunks are outdated.

    They are if the file moved, changed its type, language or properties, or is read again as a whole. They also are if
    an earlier release extracted its words.

    A file that moved back counts too if a claim in between may have patched the store's rows.
    """
    moved = claim.patch_pending or (claim.path, claim.id_path) != (claim.live_path, claim.live_id_path)
    moved |= facts.type != claim.type
    moved |= facts.words_language != claim.words_language
    moved |= facts.properties.words != claim.live_properties.words
    is_old = not (claim.live_fingerprint or "").endswith(f" {keywords.VERSION}")
    return claim.live_chunks > 0 and (moved or is_old or claim.work == "full")

"""The states of a claimed file between its claim and its outcome. Each step takes one and returns the next."""

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
    """What is known of a file's content, as far as it was read."""

    type: str | None
    stamp: str | None = None
    fingerprint: str | None = None
    mime: str | None = None
    is_binary: bool | None = None
    language: str | None = None
    words_language: str = DEFAULT
    properties: DocumentProperties = NO_PROPERTIES
    note: str | None = None
    #: Metadata by what states it: `front_matter`, `s3` or `sidecars`.
    stated: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreparedFile:
    """A file cut into chunks. `live` has the ids of those that are live already, and so are not written again.

    A file that is not `embedded` is found by its words only. `drops_vectors`: it replaces live chunks that have their
    vectors, so they stay until its own have theirs. `read_words` reads the words of its chunks, if that was prepared.
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
        """Whether search loses nothing if its words become live before its vectors."""
        return not self.drops_vectors

    @property
    def moved(self) -> bool:
        """Whether the stored locations and words of live chunks must be rewritten."""
        return _moved(self.claim, self.facts)


@dataclass(frozen=True, slots=True)
class UnchangedFile:
    """A file whose live chunks stay. `lost` are those that lack their vectors, so they are written again."""

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
    """A file that vanished from its source; its live chunks go."""

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
        """Nothing is read of it."""
        return FileFacts(self.claim.type)


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A file with a reason instead of chunks. `new` are live chunks that got their vectors nevertheless."""

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
        """What the file's row records."""
        return self.failure.reason.status

    @property
    def keeps_live(self) -> bool:
        """Whether its live chunks stay searchable: those of a skipped file go."""
        return self.status is FileStatus.FAILED


File = PreparedFile | UnchangedFile | RemovedFile | FailedFile


class ProviderUsage(NamedTuple):
    """What was sent to the provider for a file, and is in no row yet. It counts even if the file then fails."""

    chunks: int
    tokens: int


UNPAID = ProviderUsage(chunks=0, tokens=0)


@dataclass(frozen=True, slots=True)
class EmbeddedFile:
    """A file on its way to its outcome, with the vectors of its new chunks known so far.

    `timings` has the seconds of the steps after the preparation. `is_refused`: the provider refuses a text of a file
    that may lack vectors. Its words become live first, and the next claim records the refusal. `words` are those of
    chunks whose rows this worker writes twice, first without their vectors; None if it does not.
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
        """The chunks that are still to embed."""
        return [chunk for chunk in self.state.new if chunk.embedded and chunk.id not in self.vectors]

    @property
    def complete(self) -> bool:
        """Whether nothing is left to embed."""
        return not self.lacking

    @property
    def has_early_words(self) -> bool:
        """Whether its words may become live before its vectors, and are not live yet."""
        return self.state.may_lack_vectors and not self.claim.awaits_vectors

    @property
    def written(self) -> Sequence[PlacedChunk]:
        """The chunks whose rows are written now: all new ones, except those whose words are live already."""
        if isinstance(self.state, UnchangedFile) and self.claim.awaits_vectors:
            return [chunk for chunk in self.state.new if chunk.id in self.vectors]
        return self.state.new

    @property
    def status(self) -> FileStatus:
        """What the file's row records: a file that lacks vectors waits for its next claim."""
        return self.state.status if self.complete else FileStatus.PENDING


def failed(file: File, failure: FileError) -> FailedFile:
    """Return the file with a reason instead of chunks."""
    return FailedFile(file.claim, file.facts, failure, file.timings)


def _moved(claim: FileClaim, facts: FileFacts) -> bool:
    """Whether the stored rows of a file's chunks are outdated.

    The file moved, changed its type, language or properties, is read again as a whole, or its words are of an earlier
    release.

    A file that moved back counts too if a claim in between may have patched the store's rows.
    """
    moved = claim.patch_pending or (claim.path, claim.id_path) != (claim.live_path, claim.live_id_path)
    moved |= facts.type != claim.type
    moved |= facts.words_language != claim.words_language
    moved |= facts.properties.words != claim.live_properties.words
    is_old = not (claim.live_fingerprint or "").endswith(f" {keywords.VERSION}")
    return claim.live_chunks > 0 and (moved or is_old or claim.work == "full")

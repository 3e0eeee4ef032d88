"""Gives chunks their vectors: cached ones first, then new ones, with requests that span files."""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from schemas.content.document import Chunk
from schemas.errors import EmbeddingError, EmbeddingRefused, Excess, FileError, FoldexError
from schemas.reason import Reason
from worker.embed import Embedder
from worker.embed.batching import RequestTerms, embed_all, never
from worker.embed.faults import FaultFindingEmbedder, FurtherRequests
from worker.embed.pace import Stopwatch
from worker.index.file_states import (
    UNPAID,
    EmbeddedFile,
    File,
    PreparedFile,
    ProviderUsage,
    UnchangedFile,
    failed,
)
from worker.index.halve import halve_chunks, is_cuttable
from worker.index.prepare import prepare_anew
from worker.index.run import IndexRun
from worker.index.skip_cached import CacheFirstEmbedder
from worker.index.spending import LimitedEmbedder
from worker.state.index import embedding_cache, task_notes
from worker.state.index.chunks import PlacedChunk
from worker.vectors import Vector


class Embedding(NamedTuple):
    """Files with their vectors, and the error that ended the embedding early, if any."""

    files: Sequence[EmbeddedFile]
    stopped: FoldexError | None


def recall_vectors(run: IndexRun, prepared: Sequence[File]) -> list[EmbeddedFile]:
    """Return the files with those vectors of their new chunks that the project already paid for."""
    started = time.monotonic()
    batch = _EmbeddedBatch([*map(EmbeddedFile, prepared)])
    missing = batch.missing_vectors()
    for content_hash, vector in recall(run, missing).items():
        batch.answer(missing[content_hash], vector)
    return batch.files(time.monotonic() - started)


class Meanwhile(NamedTuple):
    """The work that is done while requests take longer than expected.

    `write_words` writes the words of files. It returns the files that still lack vectors, under their new claims.
    `write_others` writes the words of other files and returns whether there may be more.
    """

    write_words: Callable[[Sequence[EmbeddedFile]], Sequence[EmbeddedFile]]
    write_others: Callable[[], bool]


def embed(
    run: IndexRun,
    files: Sequence[EmbeddedFile],
    waiting: Sequence[EmbeddedFile] = (),
    *,
    more: bool,
    meanwhile: Meanwhile | None = None,
) -> Embedding:
    """Embed the chunks that still lack vectors after `recall_vectors`, and the files `waiting` from the previous call.

    With `more`, texts that do not fill a request wait for further files. If an error ends the call early, the cache
    holds everything paid for. A refused text fails only its own files. Files that `meanwhile` completes are not
    returned.
    """
    started = time.monotonic()
    batch = _EmbeddedBatch([*waiting, *files])
    missing = batch.missing_vectors()
    if not missing or not run.asks:
        return Embedding(batch.files(0), None)
    # waiting texts were looked up in the previous call, so they are looked up again before they are sent
    fresh = {chunk.content_hash for file in files for chunk in file.lacking}
    work: Callable[[], bool] = never if meanwhile is None else functools.partial(batch.write_words, meanwhile)
    stopped = _pay(run, batch, list(missing.values()), fresh, more=more, meanwhile=work)
    while stopped is None:
        try:
            cut = batch.cut(run)
        except FoldexError as error:
            # provider usage is recorded with the files
            stopped = error
            break
        if not cut:
            break
        task_notes.note_cut_texts(run.pool, run.index.id, run.epoch)
        missing = batch.missing_vectors()
        missing = {hash_: missing[hash_] for hash_ in cut if hash_ in missing}
        for content_hash, vector in recall(run, missing).items():
            batch.answer(missing.pop(content_hash), vector)
        stopped = _pay(run, batch, list(missing.values()), missing.keys(), more=more, meanwhile=work)
    return Embedding(batch.files(time.monotonic() - started), stopped)


def recall(run: IndexRun, hashes: Collection[str]) -> dict[str, Vector]:
    """Look up vectors that the project already paid for: in the cache, then in live chunks."""
    owner = embedding_cache.VectorOwner(run.index.project_id, run.index.settings.embedder)
    vectors = embedding_cache.lookup(run.pool, owner, hashes)
    by_namespace: dict[str, dict[UUID, str]] = defaultdict(dict)
    missing = [hash_ for hash_ in hashes if hash_ not in vectors]
    for hash_, namespace, id_ in embedding_cache.live_elsewhere(run.pool, owner, run.index.vector_store, missing):
        by_namespace[namespace][id_] = hash_
    for namespace, ids in by_namespace.items():
        vectors |= {ids[id_]: vector for id_, vector in run.store.vectors(namespace, list(ids)).items()}
    return vectors


class _EmbeddedBatch:
    """The files of one call, with the answers as they arrive."""

    def __init__(self, files: Sequence[EmbeddedFile]) -> None:
        self._files = files
        self._vectors = {file.claim.id: dict(file.vectors) for file in files}
        self._paid = {file.claim.id: file.paid for file in files}
        self._refusals: dict[UUID, FileError] = {}
        #: The ids of chunks that are longer than the model takes, by file.
        self._too_long: dict[UUID, set[UUID]] = defaultdict(set)
        self._has_written = False

    def missing_vectors(self) -> dict[str, list[PlacedChunk]]:
        """Return the chunks without a vector, by the hash of their text."""
        missing: dict[str, list[PlacedChunk]] = defaultdict(list)
        for file in self._files:
            for chunk in file.state.new if file.state.embedded else ():
                if chunk.id not in self._vectors[file.claim.id]:
                    missing[chunk.content_hash].append(chunk)
        return missing

    def answer(self, chunks: Iterable[PlacedChunk], vector: Vector) -> None:
        """Give all chunks of one text its vector."""
        for chunk in chunks:
            self._vectors[chunk.file_id][chunk.id] = vector

    def pay(self, chunks: Sequence[PlacedChunk]) -> None:
        """Note that the texts of chunks were sent to the provider."""
        for chunk in chunks:
            texts, tokens = self._paid[chunk.file_id]
            self._paid[chunk.file_id] = ProviderUsage(texts + 1, tokens + chunk.chunk.tokens)

    def refuse(self, chunks: Iterable[PlacedChunk], refusal: EmbeddingRefused) -> None:
        """Fail the files of a text that the provider refused. One that is only too long waits for `cut`."""
        for chunk in chunks:
            if refusal.excess is Excess.LENGTH and is_cuttable(chunk):
                self._too_long[chunk.file_id].add(chunk.id)
                continue
            is_text = refusal.reason is Reason.EMBEDDING_REFUSED
            message = _with_lines(chunk.chunk, refusal.message) if is_text else refusal.message
            self._refusals[chunk.file_id] = FileError(refusal.reason, message)

    def cut(self, run: IndexRun) -> set[str]:
        """Split each chunk that is too long in two. Returns the hashes of the new texts.

        A file whose live chunks were to stay is chunked again as a whole. The next call splits its long chunks.
        """
        too_long, self._too_long = self._too_long, defaultdict(set)
        hashes: set[str] = set()
        files = []
        for file in self._files:
            state, ids = file.state, too_long.get(file.claim.id)
            if ids and isinstance(state, PreparedFile):
                state, new = halve_chunks(run, state, ids)
                hashes |= new
            elif ids:
                state = prepare_anew(run, file.claim)
                hashes |= {chunk.content_hash for chunk in state.new}
            files.append(replace(file, state=state))
        self._files = files
        return hashes

    def write_words(self, meanwhile: Meanwhile) -> bool:
        """Write the words of these files first, then the words of others. Returns whether more may wait.

        Files without missing vectors are written too: a removed file, for example, stays searchable until then.
        """
        files = [file for file in self.files(0) if not file.claim.awaits_vectors]
        early = {file.claim.id: file for file in files if file.has_early_words or file.complete}
        if self._has_written or not early:
            return meanwhile.write_others()
        self._has_written = True
        # the usage is recorded with the words, even if the words cannot be written
        self._paid |= dict.fromkeys(early, UNPAID)
        kept = {file.claim.id: file for file in meanwhile.write_words([*early.values()])}
        left = [file for file in self._files if file.claim.id not in early or early[file.claim.id].lacking]
        self._files = [kept.get(file.claim.id, file) for file in left]
        return True

    def files(self, seconds: float) -> list[EmbeddedFile]:
        """Return the files with their answers, after `seconds` of work on all of them."""
        chunks = {file.claim.id: len(file.state.new) for file in self._files if file.state.embedded}
        shares = share(seconds, chunks)
        return [self._answered(file, shares.get(file.claim.id)) for file in self._files]

    def _answered(self, file: EmbeddedFile, seconds: float | None) -> EmbeddedFile:
        id_ = file.claim.id
        timings = file.timings
        if seconds is not None:
            timings = {**timings, "embed": round(timings.get("embed", 0) + seconds, 4)}
        state, vectors, refusal = file.state, self._vectors[id_], self._refusals.get(id_)
        is_refused = refusal is not None and file.has_early_words
        if refusal is not None and not is_refused:
            # the live text keeps the vectors that it got
            got = [chunk for chunk in state.new if chunk.id in vectors] if isinstance(state, UnchangedFile) else []
            state = replace(failed(state, refusal), new=got)
        paid = self._paid[id_]
        return replace(file, state=state, vectors=vectors, paid=paid, timings=timings, is_refused=is_refused)


def share(seconds: float, chunks: Mapping[UUID, int]) -> dict[UUID, float]:
    """Split a batch's seconds among its files by their chunks. A file without chunks has no share."""
    total = sum(chunks.values())
    return {file_id: seconds * number / total for file_id, number in chunks.items() if number}


def _pay(
    run: IndexRun,
    batch: _EmbeddedBatch,
    chunk_groups: Sequence[Sequence[PlacedChunk]],
    fresh: Collection[str],
    *,
    more: bool,
    meanwhile: Callable[[], bool],
) -> FoldexError | None:
    """Embed the text of each group of chunks once, and cache every answer at once.

    `fresh` hashes were just looked up. `meanwhile` does other work if requests take longer than expected. Returns the
    error that ended the call early, if any.
    """
    owner = embedding_cache.VectorOwner(run.index.project_id, run.index.settings.embedder)
    texts = [group[0].chunk.embedded_text for group in chunk_groups]
    tokens = [group[0].chunk.tokens for group in chunk_groups]
    # a free model's requests need not be full
    only_full = more and run.budget is not None
    given = run.budget, run.index.project_id, run.lease.check, run.embed_seconds, only_full, run.gives_way
    stopwatch = Stopwatch()
    terms = RequestTerms(*given, meanwhile, stopwatch.note, run.patience)
    embedder = _make_embedder(run, owner, dict(zip(texts, tokens, strict=True)), fresh)
    stopped: FoldexError | None = None
    paid_tokens = 0
    try:
        for indices, result in embed_all(embedder, texts, tokens, run.concurrency, terms):
            answered = [chunk_groups[index] for index in indices]
            if isinstance(result, EmbeddingRefused):
                for group in answered:
                    batch.refuse(group, result)
                continue
            vectors = {group[0].content_hash: result[row] for row, group in enumerate(answered)}
            embedding_cache.keep(run.pool, owner, vectors)
            for row, group in enumerate(answered):
                batch.answer(group, result[row])
            paid = [group[0] for group in answered if group[0].content_hash not in embedder.cached]
            batch.pay(paid)
            paid_tokens += sum(placed.chunk.tokens for placed in paid)
    except EmbeddingError as error:
        run.pace.note_failure()
        return error
    except FoldexError as error:
        stopped = error
    if paid_tokens:
        run.pace.note_answer(paid_tokens, stopwatch.last, first=stopwatch.first)
    return stopped


def _make_embedder(
    run: IndexRun, owner: embedding_cache.VectorOwner, tokens: Mapping[str, int], fresh: Collection[str]
) -> CacheFirstEmbedder:
    """Return an embedder that asks the cache, then the provider within the task's limit, and isolates faulty texts."""
    further = FurtherRequests(run.lease.check, run.budget, run.index.project_id, tokens)
    paid: Embedder = FaultFindingEmbedder(run.embedder, further)
    if run.spending:
        paid = LimitedEmbedder(paid, run.spending, tokens)
    return CacheFirstEmbedder(paid, functools.partial(embedding_cache.lookup, run.pool, owner), fresh)


def _with_lines(piece: Chunk, message: str) -> str:
    return f"Lines {piece.start_line} to {piece.end_line}: {message}"

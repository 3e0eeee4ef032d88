"""What an index must hold according to the folder's model. Checks that rows, store, counts and answers all agree."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID, uuid4

import httpx

from schemas.content.document import FileContent
from schemas.errors import FileError
from schemas.reason import FileStatus, Reason
from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.model.content import kept
from tests.model.folders import Folder, Known
from tests.service import TOOLS, checked
from worker.embed.pace import EmbeddingPace
from worker.index.file_states import FailedFile, PreparedFile
from worker.index.lease import Lease
from worker.index.prepare import read_file
from worker.index.run import IndexRun
from worker.parse import Limits
from worker.resources import Resources
from worker.state.index import tools
from worker.state.index.files import FileClaim
from worker.state.index.tools import Index
from worker.upkeep import fsck
from worker.vectors import STRING_ATTRIBUTES

#: Number of words to query, each of those that exist and of those that are gone.
WORDS = 4
#: Columns of a chunk that depend on its file's text.
TEXTS = """
SELECT f.path, c.chunk_index, c.context || c.chunk_text, c.content_hash, c.json_pointer, c.start_line, c.language,
       c.symbol, c.node_type, c.scope, c.level, c.embedded, c.id::text, c.live
FROM chunk c JOIN search_index_file f ON f.id = c.file_id WHERE c.index_id = %s
"""

NOT_ASKED: Any = None


class Running(Protocol):
    """A running Foldex, in this process or in others."""

    client: httpx.Client
    resources: Resources

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]: ...


@dataclass(frozen=True, slots=True)
class Expected:
    """The outcome of a file, and its chunks as in `TEXTS`, without the path and without what follows `embedded`."""

    status: FileStatus
    reason: Reason | None
    type: str | None
    chunks: tuple[tuple[Any, ...], ...]
    symbols: tuple[str, ...]


class OneFile:
    """A source that contains one file."""

    def __init__(self, data: bytes, type_: str | None) -> None:
        self._data, self._type = data, type_

    def read(self, key: bytes, limit: int, _listed: str = "", /) -> FileContent:
        if len(self._data) > limit:
            raise FileError(Reason.TOO_LARGE)
        return FileContent(self._data, "stamp", self._type)


class Proof:
    """Compares an index with the model. Caches what each content becomes. `store` is Turbopuffer's fake, if used."""

    def __init__(self, running: Running, store: FakeTurbopuffer | None) -> None:
        self._running = running
        self._store = store
        self._worked_out: dict[tuple[str, bytes, str, str | None], Expected] = {}

    def prove(self, tool: str, folder: Folder, gone: set[str], by: random.Random) -> None:
        """Prove everything about a tool whose index is at rest. Words that are `gone` must not be found."""
        index = self.index(tool)
        expected = self.expected(index, folder)
        known = {path: folder.known(path) for path in expected}
        status = checked(self._running.client.get(f"{TOOLS}/{tool}/status"), 200)
        _equal(status["status"], _ending(expected, status), f"how the task ended: {status}")
        self._prove_files(index, expected, known)
        rows = self._prove_chunks(index, expected)
        self._prove_symbols(index, expected)
        self._prove_store(index, expected, known, rows)
        _prove_counts(status, expected, len(rows))
        report = fsck.inspect(self._running.resources.pool, self._of(index), index)
        assert (report.drift, report.busy) == ({}, False), report
        self._prove_answers(tool, folder, expected, gone, by)

    def index(self, tool: str) -> Index:
        found = tools.index_of_tool(self._running.resources.pool, UUID(tool))
        assert found is not None
        return found

    def expected(self, index: Index, folder: Folder) -> dict[str, Expected]:
        settings = index.settings
        paths = kept(folder.files, settings.exclude, use_ignore_files=settings.use_ignore_files)
        return {path: self._becomes(index, path, folder.files[path], folder.known(path)) for path in paths}

    def prove_deletes(self, tool: str) -> None:
        """Rows confirmed as deleted are gone at once, not only after the sweep repeats the deletion an hour later."""
        index = self.index(tool)
        query = "SELECT id::text FROM chunk_tombstone WHERE index_id = %s AND deleted_at IS NOT NULL"
        confirmed = {id_ for (id_,) in self._running.rows(query, index.id)}
        _equal(confirmed & {*self._stored(index)}, set(), "vectors confirmed as deleted")

    def prove_nothing_is_left(self) -> None:
        """No listings, tombstones or deleted indexes remain, nor anything in the metrics or the store."""
        for table in ("search_index_listing", "chunk_tombstone", "search_index WHERE deleted_at IS NOT NULL"):
            _equal(self._running.rows(f"SELECT count(*) FROM {table}"), [(0,)], table)
        metrics = self._running.client.get("/metrics").text
        for name in ("foldex_files_pending", "foldex_tombstones"):
            assert f"\n{name} 0.0\n" in metrics, metrics
        namespaces = {name for (name,) in self._running.rows("SELECT namespace FROM search_index")}
        assert self._namespaces() <= namespaces, f"left in the store: {self._namespaces() - namespaces}"

    def _becomes(self, index: Index, path: str, data: bytes, known: Known) -> Expected:
        name = path.rpartition("/")[2]
        key = (name, data, index.settings.model_dump_json(), known.type)
        if key not in self._worked_out:
            self._worked_out[key] = self._work_out(index, path, data, known)
        return self._worked_out[key]

    def _work_out(self, index: Index, path: str, data: bytes, known: Known) -> Expected:
        source: Any = OneFile(data, known.type)
        tokenizer = self._running.resources.tokenizer(index.settings.embedder)
        run = IndexRun(
            *(index, 0, source, tokenizer, NOT_ASKED, NOT_ASKED, NOT_ASKED, Lease(), 1, Limits(), EmbeddingPace())
        )
        claim = FileClaim(
            *(uuid4(), known.key, path, known.id_path, known.node_id, known.type, len(data), "stamp", "version", None),
            *("read", None, None, None, 0, 0, True, False),
        )
        file = read_file(run, claim)
        prepared = file.chunks if isinstance(file, PreparedFile) else ()
        definitions = file.definitions if isinstance(file, PreparedFile) else ()
        chunks = tuple(
            (
                *(number, p.chunk.context + p.chunk.text, p.content_hash, p.chunk.json_pointer, p.chunk.start_line),
                *(p.language, p.chunk.symbol, p.chunk.node_type, p.chunk.scope, p.chunk.level, p.embedded),
            )
            for number, p in enumerate(prepared)
        )
        symbols = tuple(sorted(definition.name for definition in definitions))
        reason = file.failure.reason if isinstance(file, FailedFile) else None
        return Expected(file.status, reason, file.facts.type, chunks, symbols)

    def _prove_files(self, index: Index, expected: Mapping[str, Expected], known: Mapping[str, Known]) -> None:
        query = """
            SELECT path, id_path, node_id, status, reason FROM search_index_file
            WHERE index_id = %s AND status <> 'removed'
            """
        found = {path: tuple(row) for path, *row in self._running.rows(query, index.id)}
        wanted = {
            path: (known[path].id_path, known[path].node_id, one.status, one.reason) for path, one in expected.items()
        }
        _equal(found, wanted, "files")
        # queries that end a file look for its owner, and not for its status
        held = "SELECT path FROM search_index_file WHERE index_id = %s AND lease_owner IS NOT NULL"
        _equal(self._running.rows(held, index.id), [], "files that a worker holds")

    def _prove_chunks(self, index: Index, expected: Mapping[str, Expected]) -> dict[str, tuple[str, tuple[Any, ...]]]:
        """Returns the path and the row of each live chunk, by its id."""
        found = self._running.rows(TEXTS, index.id)
        assert all(row[-1] for row in found), "chunks that are not live"
        wanted = {(path, *row) for path, one in expected.items() for row in one.chunks}
        # A file that fails keeps its live chunks.
        rows = [row for row in found if row[0] not in expected or expected[row[0]].status is not FileStatus.FAILED]
        _equal({row[:-2] for row in rows}, wanted, "chunks")
        assert len(rows) == len(wanted), Counter(row[:-2] for row in rows).most_common(3)
        return {row[-2]: (row[0], row[1:-2]) for row in found}

    def _prove_symbols(self, index: Index, expected: Mapping[str, Expected]) -> None:
        query = """
            SELECT f.path, array_agg(s.name::text ORDER BY s.name)
            FROM symbol s JOIN search_index_file f ON f.id = s.file_id
            WHERE f.index_id = %s AND f.status <> 'failed' GROUP BY f.path
            """
        found = {path: tuple(names) for path, names in self._running.rows(query, index.id)}
        _equal(found, {path: one.symbols for path, one in expected.items() if one.symbols}, "symbols")

    def _prove_store(
        self,
        index: Index,
        expected: Mapping[str, Expected],
        known: Mapping[str, Known],
        rows: Mapping[str, tuple[str, tuple[Any, ...]]],
    ) -> None:
        stored = self._stored(index)
        assert stored.keys() == rows.keys(), (
            f"stray {stored.keys() - rows.keys()}, missing {rows.keys() - stored.keys()}"
        )
        for id_, (path, row) in rows.items():
            if expected[path].status is FileStatus.FAILED:
                continue
            _, _, content_hash, pointer, _, language, symbol, node_type, scope, level, embedded = row
            wanted = {
                "file_node_id": known[path].file_node_id(index.id),
                "file_id_path": known[path].id_path,
                "file_name": path.rpartition("/")[2],
                "file_type": expected[path].type,
                "json_pointer": pointer,
                "content_hash": content_hash,
                "chunk_id": id_,
                "language": language,
                "symbol": symbol,
                "node_type": node_type,
                "scope": scope,
                "level": level,
                "embedded": embedded,
            }
            kept = self._of(index).stored(index.namespace, wanted)
            _equal({name: stored[id_].get(name) for name in kept}, kept, f"attributes of {path}")

    def _stored(self, index: Index) -> dict[str, dict[str, Any]]:
        """The attributes of each row of a namespace, by id."""
        if self._store is not None:
            with self._store.lock:
                space = self._store.namespaces.get(index.namespace)
                return {str(id_): dict(row.values) for id_, row in space.rows.items()} if space else {}
        import lancedb

        directory = self._running.resources.home / "lancedb"
        if not (directory / f"{index.namespace}.lance").exists():
            return {}
        table = lancedb.connect(directory).open_table(index.namespace)
        found = table.to_arrow().select(["id", *STRING_ATTRIBUTES, "level", "embedded"]).to_pylist()
        assert len({row["id"] for row in found}) == len(found), "an id stands twice in the store"
        return {row.pop("id"): row for row in found}

    def _namespaces(self) -> set[str]:
        if self._store is not None:
            with self._store.lock:
                return {*self._store.namespaces}
        return {path.stem for path in (self._running.resources.home / "lancedb").glob("*.lance")}

    def _of(self, index: Index) -> Any:
        return self._running.resources.store_of(index)

    def _prove_answers(
        self, tool: str, folder: Folder, expected: Mapping[str, Expected], gone: set[str], by: random.Random
    ) -> None:
        indexed = {path for path, one in expected.items() if one.status is FileStatus.INDEXED}
        there = {path: words_of(folder.files[path]) for path in indexed}
        failed = any(one.status is FileStatus.FAILED for one in expected.values())
        words = sorted({word for found in there.values() for word in found})
        for word in by.sample(words, min(WORDS, len(words))):
            paths = {path for path, found in there.items() if word in found}
            _equal(self._finds(tool, word, "keyword"), paths, f"answer for {word}", more=failed)
            # The ranking puts all but one of repeated texts of a file last.
            found_first = self._finds(tool, word, "hybrid")
            assert found_first & paths, f"hybrid answer for {word}: {found_first}"
            _equal(found_first | paths, paths, f"hybrid answer for {word}", more=failed)
            path = by.choice(sorted(paths))
            _equal(self._finds(tool, word, "keyword", path=path), {path}, f"answer for {word} in {path} alone")
        for word in by.sample(sorted(gone - {*words}), min(WORDS, len(gone - {*words}))):
            _equal(self._finds(tool, word, "hybrid"), set(), f"answer for {word}, which is gone", more=failed)

    def _finds(self, tool: str, word: str, mode: str, **filters: str) -> set[str]:
        """The paths of the hits that contain the word."""
        body = {"query": word, "mode": mode, "top_k": 50, "filters": filters}
        answer = checked(self._running.client.post(f"{TOOLS}/{tool}/query", json=body), 200)
        return {hit["file_path"] for hit in answer["results"] if word in hit["chunk_text"]}


def words_of(data: bytes) -> set[str]:
    """The words that only texts of the machine contain."""
    pieces = data.decode(errors="replace").replace('"', " ").replace("'", " ").replace("(", " ").split()
    return {piece for piece in pieces if len(piece) == 9 and piece[0] == "q" and piece.isalpha()}


def _ending(expected: Mapping[str, Expected], status: Mapping[str, Any]) -> str:
    failed = any(one.status is FileStatus.FAILED for one in expected.values())
    return "error" if failed and not status["total_chunks"] else "ready"


def _prove_counts(status: Mapping[str, Any], expected: Mapping[str, Expected], chunks: int) -> None:
    outcomes = Counter(one.status for one in expected.values())
    wanted = {f"{name}_files": outcomes[FileStatus(name)] for name in ("indexed", "skipped", "failed")}
    wanted |= {"total_files": len(expected), "held_removals": 0, "total_chunks": chunks}
    _equal({name: status[name] for name in wanted}, wanted, "counts of the status")
    if status["status"] == "ready":
        assert status["progress"] == 1, status


def _equal(found: Any, wanted: Any, what: str, *, more: bool = False) -> None:
    """Assert equality. With `more`, `found` may be a superset."""
    if found == wanted or (more and found >= wanted):
        return
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = [key for key in {*found, *wanted} if found.get(key) != wanted.get(key)]
        lines = [f"{key}: found {found.get(key)!r}, wanted {wanted.get(key)!r}" for key in sorted(keys)[:10]]
    elif isinstance(found, set) and isinstance(wanted, set):
        lines = [*(f"too much: {one!r}" for one in list(found - wanted)[:5])]
        lines += [f"missing: {one!r}" for one in list(wanted - found)[:5]]
    else:
        lines = [f"found {found!r}, wanted {wanted!r}"]
    raise AssertionError("\n".join([f"{what}:", *lines]))

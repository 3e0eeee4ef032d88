"""Rows in Turbopuffer, through its official client: one namespace per name, cosine distance.

Keywords use BM25 over `chunk_words` and `chunk_code`.
"""

from __future__ import annotations

import base64
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import numpy as np
import structlog

from schemas.errors import StoreError, StoreRefused, StoreUnauthorized, StoreUnavailable
from worker.machine.retry_after import seconds_to_wait
from worker.vectors import Leg, Patch, Ranked, StoredAttributes, Value, Vector, VectorRow, ties
from worker.vectors.blind import BlindKey, Blinds
from worker.vectors.rows import can_match, check, ranked
from worker.vectors.subquery_turns import SubqueryTurns
from worker.vectors.turbopuffer_rows import (
    MAX_LIMIT,
    ROW_OVERHEAD_BYTES,
    BlindRows,
    Body,
    ReadableRows,
    RowForm,
    is_old,
    patch_body,
    query_of,
    row_bytes,
    upsert_body,
)

if TYPE_CHECKING:
    from turbopuffer import APIStatusError, Turbopuffer
    from turbopuffer.lib.namespace import Namespace

T = TypeVar("T")

log = structlog.get_logger()

#: Time-out of a request in seconds. Requests are not retried here; the task layer waits out back-pressure.
TIMEOUT_S = 15.0
#: Minimum time-out of a request whose turn came at the last moment.
SHORTEST_S = 0.5
#: Maximum rows of a request. A namespace accepts 10k rows per second.
MAX_ROWS = 4_000
#: Maximum bytes of a request. A namespace accepts 32 MB per second.
MAX_BYTES = 32_000_000
#: Requests of at most this many bytes are not made smaller after a time-out, because size is not the cause.
MIN_BYTES = 100_000
#: Seconds after a time-out for which requests stay smaller.
SMALL_S = 600.0
#: Subqueries that a namespace runs at once. Each leg of a search is one. The next waits 0.8 s, and then gets a 429.
MAX_SUBQUERIES = 16
#: Maximum number of legs in one request. The store accepts 16, but one search must not make all others wait.
MAX_LEGS = 8
#: Seconds until a read that got a 429 is sent again, because other processes also read the namespace. Doubled each
#: time. A longer wait is up to the caller.
FIRST_BUSY_PAUSE, LONGEST_BUSY_PAUSE = 0.1, 2.0
#: Vectors in one answer: 8 MB at 4096 dimensions.
MAX_VECTORS = 400


class TurbopufferStore:
    """The vector store for installations with a Turbopuffer key.

    `base_url` overrides the region's address. With a `text_key` the store gets keyed hashes of words, names and paths.
    Threads may share a store. A forked child opens its own connections, because sockets must not be shared.
    """

    def __init__(
        self,
        api_key: str,
        *,
        region: str,
        base_url: str | None = None,
        has_keywords: bool,
        text_key: BlindKey | None = None,
        timeout: float = TIMEOUT_S,
        processes: int = 1,
    ) -> None:
        """Open the store. `processes` is the number of API processes, which share the subqueries of a namespace."""
        self._timeout = timeout
        self._turns = SubqueryTurns(max(1, MAX_SUBQUERIES // processes))
        self._blinds = None if text_key is None else Blinds(text_key)
        self._max_request_bytes, self._small_until = MAX_BYTES, 0.0
        self._api_key = api_key
        self._region = region
        self._base_url = base_url
        self._has_keywords = has_keywords
        self._lock = threading.Lock()
        self._client: tuple[int, Turbopuffer] | None = None

    @property
    def has_keywords(self) -> bool:
        """Whether the store runs keyword legs."""
        return self._has_keywords

    @property
    def is_here(self) -> bool:
        """Whether searches run in this process."""
        return False

    def write(
        self,
        namespace: str,
        dimensions: int,
        upserts: Sequence[VectorRow] = (),
        patches: Sequence[Patch] = (),
        deletes: Sequence[UUID] = (),
    ) -> None:
        """Apply all changes in requests of one kind each, split to `MAX_ROWS` and `MAX_BYTES`.

        Raises `StoreRefused`, `StoreUnauthorized` or `StoreUnavailable`. A part may be applied by then: repeat the
        call. After a time-out requests are half as large, so that the repeated call gets further.
        """
        check(upserts, patches, deletes)
        form, keywords = self._form(namespace), self._has_keywords
        self._each(
            upserts,
            lambda row: row_bytes(row) + dimensions * 4 * 4 // 3,
            lambda rows: self._send(namespace, upsert_body(form, rows, dimensions, has_keywords=keywords)),
        )
        self._each(
            patches,
            row_bytes,
            lambda batch: self._send_existing(namespace, patch_body(form, batch, has_keywords=keywords)),
        )
        self._each(
            deletes,
            lambda _: ROW_OVERHEAD_BYTES,
            lambda ids: self._send_existing(namespace, {"deletes": [str(id_) for id_ in ids]}),
        )

    def search(self, namespace: str, legs: Sequence[Leg]) -> list[Ranked]:
        """Return one ranking per leg, ties ordered by id, at most `MAX_LIMIT` rows each. Raises as `write` does."""
        answerable = [
            (number, leg) for number, leg in enumerate(legs) if can_match(leg, has_keywords=self._has_keywords)
        ]
        rankings = [Ranked([], []) for _ in legs]
        size = min(MAX_LEGS, self._turns.most)
        deadline = time.monotonic() + self._timeout
        for start in range(0, len(answerable), size):
            group = answerable[start : start + size]
            found = self._with_ties(namespace, [leg for _, leg in group], deadline)
            for (number, _), ranking in zip(group, found, strict=False):
                rankings[number] = ranking
        return rankings

    def ids(self, namespace: str, after: UUID | None, limit: int) -> list[UUID]:
        """Return the next `limit` ids in ascending order; fewer only at the end. Raises as `write` does."""
        ids: list[UUID] = []
        while len(ids) < limit:
            page = self._page(namespace, ids[-1] if ids else after, min(limit - len(ids), MAX_LIMIT))
            ids += page
            if len(page) < MAX_LIMIT:
                break
        return ids

    def attributes(self, namespace: str, after: UUID | None, limit: int) -> dict[UUID, StoredAttributes]:
        """Return the attributes of the next `limit` rows in ascending order of ids. Raises as `write` does."""
        names = self._form(namespace).checked
        by_id: dict[UUID, StoredAttributes] = {}
        while len(by_id) < limit:
            page_size = min(limit - len(by_id), MAX_LIMIT)
            rows = self._rows(namespace, next(reversed(by_id), after), page_size, include_attributes=[*names])
            # The store omits nulls.
            by_id |= {UUID(str(row.id)): {name: getattr(row, name, None) for name in names} for row in rows}
            if len(rows) < page_size:
                break
        return by_id

    def stored(self, namespace: str, attributes: Mapping[str, Value]) -> StoredAttributes:
        """Return the result of `attributes` for a row that was written with these values."""
        return self._form(namespace).changed(attributes)

    def vectors(self, namespace: str, ids: Sequence[UUID]) -> dict[UUID, Vector]:
        """Return the vectors of the ids that have one, at most `MAX_VECTORS` per request. Raises as `write` does."""
        by_id: dict[UUID, Vector] = {}
        for start in range(0, len(ids), MAX_VECTORS):
            batch = [str(id_) for id_ in ids[start : start + MAX_VECTORS]]
            by_id |= self._vectors(namespace, ("And", [("id", "In", batch), ("embedded", "Eq", True)]))
        return by_id

    def drop(self, namespace: str) -> bool:
        """Delete the namespace with all its rows. Returns whether it existed. Raises as `write` does."""
        return self._request(namespace, lambda ns: ns.delete_all()) is not None

    def verify(self, namespace: str, most_bytes: int | None = None) -> None:  # noqa: ARG002 - the service reads its rows
        """Drop a namespace with attributes from before the first release. The service checks its own data."""
        names = self._request(namespace, lambda ns: ns.schema())
        if names is not None and is_old(names, has_keywords=self._has_keywords):
            log.warning("a namespace is of before the first release; its rows are written again", namespace=namespace)
            self.drop(namespace)

    def optimize(self, namespace: str, *, writing: bool = False) -> None:
        """Do nothing: the store compacts and indexes by itself, and its API has no such call."""

    def _form(self, namespace: str) -> RowForm:
        return ReadableRows() if self._blinds is None else BlindRows(self._blinds.of(namespace))

    def _with_ties(self, namespace: str, legs: Sequence[Leg], deadline: float) -> list[Ranked]:
        """Return one ranking per leg. If rows tie at its limit, all of these are fetched, and their ids decide."""
        limits: dict[int, int | None] = {at: min(ties.first_limit(leg.limit), MAX_LIMIT) for at, leg in enumerate(legs)}
        rankings = [Ranked([], []) for _ in legs]
        while asked := {at: limit for at, limit in limits.items() if limit is not None}:
            wanted = [replace(legs[at], limit=limit) for at, limit in asked.items()]
            # empty if the namespace does not exist
            found = self._search(namespace, wanted, deadline) or [Ranked([], []) for _ in wanted]
            for (at, limit), ranking in zip(asked.items(), found, strict=True):
                rankings[at] = ranking[: legs[at].limit]
                limits[at] = ties.next_limit(legs[at].limit, limit, ranking.values, MAX_LIMIT)
        return rankings

    def _search(self, namespace: str, legs: Sequence[Leg], deadline: float) -> list[Ranked]:
        form = self._form(namespace)
        queries: Any = [query_of(form, leg) for leg in legs]
        try:
            answer = self._read(
                namespace, lambda ns, seconds: ns.multi_query(queries=queries, timeout=seconds), len(legs), deadline
            )
        except StoreRefused as refused:
            raise StoreRefused(form.readable(refused.message, legs)) from refused
        if answer is None:
            return []
        results = _present(answer, "results")
        return [
            ranked(
                [str(row.id) for row in result.rows or ()],
                [row["$dist"] for row in result.rows or ()],
                descending=leg.vector is None,
                limit=leg.limit,
            )
            for leg, result in zip(legs, results, strict=True)
        ]

    def _page(self, namespace: str, after: UUID | None, limit: int) -> list[UUID]:
        return [UUID(str(row.id)) for row in self._rows(namespace, after, limit)]

    def _rows(self, namespace: str, after: UUID | None, limit: int, **columns: Any) -> Sequence[Any]:
        start: Body = {} if after is None else {"filters": ("id", "Gt", str(after))}
        answer = self._read(
            namespace,
            lambda ns, seconds: ns.query(rank_by=("id", "asc"), limit=limit, timeout=seconds, **start, **columns),
        )
        return () if answer is None else _present(answer, "rows")

    def _vectors(self, namespace: str, filters: Any) -> dict[UUID, Vector]:
        columns: Body = {"include_attributes": ["vector"], "vector_encoding": "base64"}
        answer = self._read(
            namespace,
            lambda ns, seconds: ns.query(
                rank_by=("id", "asc"), limit=MAX_VECTORS, filters=filters, timeout=seconds, **columns
            ),
        )
        rows = () if answer is None else _present(answer, "rows")
        return {UUID(str(row.id)): _decoded(row.vector) for row in rows}

    def _each(self, items: Sequence[T], size: Callable[[T], int], send: Callable[[Sequence[T]], None]) -> None:
        """Send items in batches. A batch that times out is not repeated: only the caller knows if it is wanted."""
        with self._lock:
            if time.monotonic() > self._small_until:
                self._max_request_bytes = MAX_BYTES
            max_bytes = self._max_request_bytes
        for batch in _batches(items, size, max_bytes):
            try:
                send(batch)
            except StoreUnavailable as error:
                if error.timed_out:
                    self._shrink(sum(map(size, batch)))
                raise

    def _shrink(self, request_bytes: int) -> None:
        """Halve the size of requests after one of `request_bytes` timed out."""
        with self._lock:
            self._max_request_bytes = max(MIN_BYTES, min(self._max_request_bytes, request_bytes // 2))
            self._small_until = time.monotonic() + SMALL_S
            log.warning(
                "a write timed out; sending smaller requests", bytes=request_bytes, most=self._max_request_bytes
            )

    def _send(self, namespace: str, body: Body) -> None:
        with _map_errors():
            self._namespace(namespace).write(**body)

    def _send_existing(self, namespace: str, body: Body) -> None:
        # A late patch or delete must not recreate a dropped namespace.
        self._request(namespace, lambda ns: ns.write(**body, create_namespace=False))

    def _read(
        self,
        namespace: str,
        call: Callable[[Namespace, float], T],
        subqueries: int = 1,
        deadline: float | None = None,
    ) -> T | None:
        """Call `call` in turn and return its result, or None if the namespace does not exist.

        `call` gets the seconds that are left until the `deadline`. A busy namespace is asked again until then.
        """
        deadline = time.monotonic() + self._timeout if deadline is None else deadline
        pause = FIRST_BUSY_PAUSE
        while True:
            try:
                return self._read_once(namespace, call, subqueries, deadline)
            except StoreUnavailable as error:
                wait = max(error.retry_after or 0.0, random.uniform(pause / 2, pause))  # noqa: S311 - spreads requests
                if not error.is_busy or wait > LONGEST_BUSY_PAUSE or time.monotonic() + wait >= deadline:
                    raise
            time.sleep(wait)
            pause = min(2 * pause, LONGEST_BUSY_PAUSE)

    def _read_once(
        self, namespace: str, call: Callable[[Namespace, float], T], subqueries: int, deadline: float
    ) -> T | None:
        with self._turns.hold(namespace, subqueries, deadline):
            seconds = max(deadline - time.monotonic(), SHORTEST_S)
            return self._request(namespace, lambda ns: call(ns, seconds))

    def _request(self, namespace: str, call: Callable[[Namespace], T]) -> T | None:
        """Return the result of `call`, or None if the namespace does not exist."""
        from turbopuffer import NotFoundError

        with _map_errors():
            try:
                return call(self._namespace(namespace))
            except NotFoundError:
                return None

    def _namespace(self, name: str) -> Namespace:
        with self._lock:
            if self._client is None or self._client[0] != os.getpid():
                self._client = os.getpid(), self._connect()
            return self._client[1].namespace(name)

    def _connect(self) -> Turbopuffer:
        from turbopuffer import Turbopuffer

        # The client rejects a region together with a plain address, even a region from its environment variable. It
        # accepts only this way of saying "none": an empty region, with a placeholder at the end of the address.
        region, base_url = (self._region, None) if self._base_url is None else ("", self._base_url + "/{region}")
        return Turbopuffer(
            api_key=self._api_key,
            region=region,
            base_url=base_url or "https://{region}.turbopuffer.com",
            timeout=self._timeout,
            max_retries=0,
        )


def _batches(items: Sequence[T], size: Callable[[T], int], max_bytes: int) -> Iterator[Sequence[T]]:
    start = total = 0
    for number, item in enumerate(items):
        total += size(item)
        if number > start and (total > max_bytes or number - start >= MAX_ROWS):
            yield items[start:number]
            start, total = number, size(item)
    if start < len(items):
        yield items[start:]


def _present(answer: object, name: str) -> Sequence[Any]:
    """Return the rows of an answer. Raises if it has status 202: an index that the query needs is not built yet."""
    found: Sequence[Any] | None = getattr(answer, name, None)
    if found is None:
        raise StoreUnavailable("Turbopuffer is building an index of this folder; try again shortly.")
    return found


def _decoded(value: object) -> Vector:
    """Decode a vector from base64, or from the list of numbers that a service without this option sends."""
    if isinstance(value, str):
        return np.frombuffer(base64.b64decode(value), dtype="<f4")
    return np.asarray(value, dtype=np.float32)


@contextmanager
def _map_errors() -> Iterator[None]:
    """Turn the client's errors into `StoreError`."""
    from turbopuffer import APIStatusError, APITimeoutError, TurbopufferError

    try:
        yield
    except APIStatusError as error:
        raise _by_status(error) from error
    except APITimeoutError as error:
        raise StoreUnavailable("Turbopuffer did not answer in time; try again later.", timed_out=True) from error
    except TurbopufferError as error:
        raise StoreUnavailable(
            f"Turbopuffer did not answer ({error}); check TURBOPUFFER_REGION and the network."
        ) from error


def _by_status(error: APIStatusError) -> StoreError:
    status = error.status_code
    if status in {401, 403}:
        return StoreUnauthorized("Turbopuffer rejected the key; check TURBOPUFFER_API_KEY.")
    # 409 means that an index is still being built.
    if status in {408, 409, 429} or status >= 500:  # noqa: PLR2004 - the class of server errors
        wait = seconds_to_wait(error.response.headers.get("retry-after"))
        is_busy = status == HTTPStatus.TOO_MANY_REQUESTS
        said = f"Turbopuffer is busy (HTTP {status}); try again later."
        return StoreUnavailable(said, retry_after=wait, is_busy=is_busy)
    return StoreRefused(f"Turbopuffer rejected the request (HTTP {status}): {error}")

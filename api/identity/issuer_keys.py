"""The public keys of an issuer of tokens: read when they are needed, kept, and read again when it rotates them.

Keys are read in one thread at a time, and callers wait for it without one.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any, NamedTuple

import httpx
import structlog
from joserfc.errors import JoseError
from joserfc.jwk import Key, import_key

from schemas.errors import IssuerUnavailable

#: Seconds after which keys are read again, so that a key that the issuer withdraws stops working.
FRESH_SECONDS = 300.0
#: Seconds between two readings, whatever callers send.
REST_SECONDS = 5.0
#: Seconds that a reading may take, and bytes and keys that are read.
READ_SECONDS = 5.0
MAX_BYTES = 1 << 18
MAX_KEYS = 100
#: Kinds of keys by algorithm. A key for one must never check another.
KINDS: Mapping[str, tuple[str, frozenset[str]]] = {
    "RS256": ("RSA", frozenset()),
    "ES256": ("EC", frozenset({"P-256"})),
    "EdDSA": ("OKP", frozenset({"Ed25519"})),
}
#: Characters of the modulus of an RSA key of 2,048 bits. Shorter keys can be broken.
_MIN_MODULUS = 342

log = structlog.get_logger()


class IssuerKey(NamedTuple):
    """A public key with its id, if it has one, and the algorithm that it checks."""

    id: str | None
    algorithm: str
    key: Key


class IssuerKeys:
    """The keys at a URL or in a file. Thread-safe."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._lock = Lock()
        self._keys: Sequence[IssuerKey] = ()
        self._read_at = 0.0
        self._begun_at = 0.0
        #: The last reading, with whether it succeeded.
        self._reading: Future[bool] | None = None

    async def find(self, key_id: str | None, algorithm: str) -> Key | None:
        """The key with this id; without an id, the only one for the algorithm. Raises `IssuerUnavailable`."""
        found = self._known(key_id, algorithm)
        if found is None:
            is_read = False
            with suppress(TimeoutError):
                # twice, as its first byte and the rest may each take as long
                async with asyncio.timeout(2 * READ_SECONDS):
                    is_read = await asyncio.wrap_future(self._begun())
            found = self._known(key_id, algorithm)
            if found is None and not is_read:
                # the log says why, which is not for strangers
                raise IssuerUnavailable(IssuerUnavailable.example)
        elif time.monotonic() - self._read_at > FRESH_SECONDS:
            self._begun()
        return found

    def _known(self, key_id: str | None, algorithm: str) -> Key | None:
        fitting = [each for each in self._keys if each.algorithm == algorithm]
        if key_id is not None:
            return next((each.key for each in fitting if each.id == key_id), None)
        return fitting[0].key if len(fitting) == 1 else None

    def _begun(self) -> Future[bool]:
        """The reading that is in progress, or a new one, or the last one if it began a moment ago."""
        with self._lock:
            now = time.monotonic()
            last = self._reading
            if last is not None and (not last.done() or now - self._begun_at < REST_SECONDS):
                return last
            self._begun_at, self._reading = now, Future()
            # a caller that leaves must not cancel it for the others
            self._reading.set_running_or_notify_cancel()
            Thread(target=self._read, args=(self._reading,), name="issuer-keys", daemon=True).start()
            return self._reading

    def _read(self, reading: Future[bool]) -> None:
        try:
            self._keys = read_keys(self._place)
            self._read_at = time.monotonic()
        except IssuerUnavailable as error:
            # the keys that are known go on
            log.warning("the keys of the issuer of tokens could not be read", reason=error.message)
            reading.set_result(False)
        except BaseException as error:
            reading.set_exception(error)
            raise
        else:
            reading.set_result(True)


def read_keys(place: str) -> list[IssuerKey]:
    """Read the keys at a URL or in a file, each with its id and algorithm. Raises `IssuerUnavailable`."""
    try:
        given = json.loads(_fetched(place) if _is_url(place) else _file(place))
        described = given["keys"]
        if not isinstance(described, list) or len(described) > MAX_KEYS:
            raise IssuerUnavailable(f"it has no list of at most {MAX_KEYS} keys")
    except OSError as error:
        raise IssuerUnavailable(error.strerror or type(error).__name__) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise IssuerUnavailable(f"{type(error).__name__}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise IssuerUnavailable("it is no JSON with a list of keys") from None
    keys = [key for each in described if isinstance(each, dict) for key in _imported(each)]
    if not keys:
        raise IssuerUnavailable(f"it has no key for {', '.join(KINDS)}")
    return keys


def _imported(described: dict[str, Any]) -> list[IssuerKey]:
    """A described key that checks signatures, or nothing."""
    kind, curve, key_id = described.get("kty"), described.get("crv"), described.get("kid")
    for algorithm, (its_kind, curves) in KINDS.items():
        if kind != its_kind or (curves and curve not in curves):
            continue
        if described.get("use", "sig") != "sig" or described.get("alg", algorithm) != algorithm:
            return []
        if kind == "RSA" and len(str(described.get("n", ""))) < _MIN_MODULUS:
            return []
        try:
            key = import_key(described)
        except (JoseError, ValueError, TypeError, KeyError):
            return []
        return [IssuerKey(key_id if isinstance(key_id, str) else None, algorithm, key)]
    return []


def _is_url(place: str) -> bool:
    return place.startswith(("http://", "https://"))


def _file(place: str) -> bytes:
    with Path(place).open("rb") as file:
        return _bounded(file.read(MAX_BYTES + 1))


def _fetched(url: str) -> bytes:
    ends = time.monotonic() + READ_SECONDS
    got = bytearray()
    # neither compressed, which would have no bound, nor from another address
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    with httpx.stream("GET", url, headers=headers, timeout=READ_SECONDS, follow_redirects=False) as answer:
        if answer.status_code != httpx.codes.OK:
            raise IssuerUnavailable(f"it answers {answer.status_code}")
        for part in answer.iter_raw():
            got = bytearray(_bounded(got + part))
            if time.monotonic() > ends:
                raise IssuerUnavailable(f"it takes longer than {READ_SECONDS:g} s")
    return bytes(got)


def _bounded(read: bytes | bytearray) -> bytes:
    if len(read) > MAX_BYTES:
        raise IssuerUnavailable(f"it has more than {MAX_BYTES:,} bytes")
    return bytes(read)

"""Keyed hashes that replace words, names and paths in a store that a third party operates.

A hash is an HMAC-SHA256 under a key of the namespace, so equal words of two folders have different hashes. Its first 48
bits are kept: among ten million words fewer than one collision is expected. BM25 stays exact, because a row has a hash
for each of its tokens. Rows store them in sorted order, so that sentences cannot be reconstructed.
`docs/explanation/store-privacy.md` says what the store still learns.

A filter compares hashes, too. For an attribute that filters by prefix, a row has a hash for each of its ancestors; for
one that filters by suffix, a hash for each suffix.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from threading import Lock

from cachetools import LRUCache

from worker.tokens.keywords import Keywords
from worker.tokens.remembered import Remembered
from worker.vectors import CHECKED_ATTRIBUTES, Condition, Field, Value, VectorRow, cut_filterable

#: Bytes of a hash: 8 characters of base64.
HASH_BYTES = 6
#: Characters of a hash, with the space or comma that separates it from the next one.
SPACED_HASH = 9
#: Bytes of a key's id.
_ID_BYTES = 8
#: Maximum number of namespaces whose word hashes a process caches, in some 60 MB each at most.
_MAX_NAMESPACES = 4

#: Attributes of a row's file and of its chunk. Each group is one array of hashes, which a patch replaces as a whole.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "file_terms": ("file_node_id", "file_id_path", "file_name", "file_type"),
    "chunk_terms": ("json_pointer", "language", "symbol", "node_type", "scope"),
}
#: Strings that are used only to compare rows.
_COMPARED = ("content_hash",)
#: Attributes that filter by prefix, and by suffix.
_WITH_ANCESTORS = frozenset({"file_id_path", "json_pointer", "scope"})
_WITH_ENDINGS = frozenset({"file_name"})
_GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}
_FILTERED_BY = {"in": _GROUP_OF.keys(), "prefix": _WITH_ANCESTORS, "suffix": _WITH_ENDINGS}
#: The domain of a hash. Equal texts of two domains have different hashes.
_DOMAINS = ("text", "code", *(f"{how} {name}" for how, names in _FILTERED_BY.items() for name in names))


@dataclass(frozen=True, slots=True)
class BlindKey:
    """The installation's key, from which each namespace's key is derived. `id` identifies it and reveals nothing."""

    id: str
    secret: bytes

    @classmethod
    def of(cls, secret: str) -> BlindKey:
        """Derive the key from a text."""
        return cls(hmac.digest(secret.encode(), b"id of this key", sha256)[:_ID_BYTES].hex(), secret.encode())


class Blinds:
    """The hashes of namespaces under one key. Thread-safe."""

    def __init__(self, key: BlindKey) -> None:
        self._key = key
        self._lock = Lock()
        self._kept: LRUCache[str, Blind] = LRUCache(_MAX_NAMESPACES)

    def of(self, namespace: str) -> Blind:
        """Return the hashes of a namespace."""
        with self._lock:
            blind = self._kept.get(namespace)
            if blind is None:
                self._kept[namespace] = blind = Blind(self._key, namespace)
            return blind


class Blind:
    """The hashes of one namespace."""

    def __init__(self, key: BlindKey, namespace: str) -> None:
        # an HMAC that has taken the key; each hash continues a copy
        self._keyed = hmac.new(hmac.digest(key.secret, namespace.encode(), sha256), digestmod=sha256)
        self._hashes: dict[str, Remembered] = {
            domain: Remembered(partial(self._compute, domain)) for domain in _DOMAINS
        }

    def tokens(self, field: Field, tokens: Sequence[str]) -> list[str]:
        """Return the hashes of tokens in a keyword field, in their order."""
        return list(map(self._hashes[field].__getitem__, tokens))

    def keywords(self, keywords: Keywords) -> tuple[list[str], list[str]]:
        """Return the hashes of a row's keyword fields, sorted, with repetitions."""
        text, code = keywords.text.split(), keywords.code.split()
        return sorted(self.tokens("text", text)), sorted(self.tokens("code", code))

    def attributes(self, values: Mapping[str, Value]) -> dict[str, Value | list[str]]:
        """Hash attributes of a row. Each group becomes one array; attributes that no filter reads stay as they are."""
        blind: dict[str, Value | list[str]] = {
            name: self._compute(name, str(value)) if name in _COMPARED and value is not None else value
            for name, value in values.items()
            if name not in _GROUP_OF
        }
        for group, names in GROUPS.items():
            if not values.keys().isdisjoint(names):
                if not values.keys() >= set(names):
                    raise ValueError(f"a patch changes all of {names}, or none")
                blind[group] = sorted({term for name in names for term in self._terms(name, values.get(name))})
        return blind

    def row(self, row: VectorRow) -> dict[str, Value | list[str]]:
        """Hash all attributes of a row."""
        blind = self.attributes({**dict.fromkeys(CHECKED_ATTRIBUTES), **row.attributes})
        return {**blind, "embedded": row.vector is not None, "generation": row.generation}

    def condition(self, condition: Condition) -> tuple[str, list[str]]:
        """Return the array that a condition on a string reads, and the hashes of which a matching row has at least one.

        Raises `ValueError` for a filter without hashes in the rows.
        """
        name = condition.attribute
        if name not in _FILTERED_BY[condition.op]:
            raise ValueError(f"no row has hashes of {name} for the filter {condition.op}")
        values = [cut_filterable(str(value)) for value in condition.values]
        return _GROUP_OF[name], list(map(self._hashes[f"{condition.op} {name}"].__getitem__, values))

    def _terms(self, name: str, value: Value) -> Iterator[str]:
        if value is None:
            return
        text = cut_filterable(str(value))
        yield self._hashes[f"in {name}"][text]
        if name in _WITH_ANCESTORS:
            yield from map(self._hashes[f"prefix {name}"].__getitem__, (*_before_each(text, "/"), text))
        if name in _WITH_ENDINGS:
            hashes = self._hashes[f"suffix {name}"]
            yield from (hashes[text[len(part) :]] for part in _before_each(text, "."))

    def _compute(self, domain: str, text: str) -> str:
        keyed = self._keyed.copy()
        keyed.update(f"{domain}\0{text}".encode("utf-8", "surrogatepass"))
        return urlsafe_b64encode(keyed.digest()[:HASH_BYTES]).decode()


def _before_each(text: str, separator: str) -> Iterable[str]:
    """Yield the text before each separator."""
    return (text[:end] for end, character in enumerate(text) if character == separator)

"""A cache in which no owner, such as a project, evicts entries of owners that use less."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from cachetools import Cache

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class FairCache(Cache[Key, Value], Generic[Key, Value]):
    """Evicts the least recently used entry of the owner of most bytes. Not thread-safe."""

    def __init__(
        self, size: int, owner_of: Callable[[Key], Hashable], getsizeof: Callable[[Value], int] | None = None
    ) -> None:
        super().__init__(size, getsizeof)
        self._owner_of = owner_of
        #: Keys by owner, those used least recently first.
        self._order: dict[Hashable, OrderedDict[Key, None]] = {}
        self._bytes: Counter[Hashable] = Counter()

    def __getitem__(self, key: Key, **more: Any) -> Value:
        value: Value = super().__getitem__(key, **more)
        if key in self:  # a missing key may have a default
            self._order[self._owner_of(key)].move_to_end(key)
        return value

    def __setitem__(self, key: Key, value: Value, **more: Any) -> None:
        if key in self:
            del self[key]
        super().__setitem__(key, value, **more)
        owner = self._owner_of(key)
        self._order.setdefault(owner, OrderedDict())[key] = None
        self._bytes[owner] += self._size_of(key)

    def __delitem__(self, key: Key, **more: Any) -> None:
        size = self._size_of(key) if key in self else 0
        super().__delitem__(key, **more)
        owner = self._owner_of(key)
        del self._order[owner][key]
        self._bytes[owner] -= size
        if not self._order[owner]:
            del self._order[owner], self._bytes[owner]

    def popitem(self) -> tuple[Key, Value]:
        """Evict an entry."""
        owner = max(self._bytes, key=self._bytes.__getitem__)
        key = next(iter(self._order[owner]))
        return key, self.pop(key)

    def _size_of(self, key: Key) -> int:
        return int(self.getsizeof(Cache.__getitem__(self, key)))

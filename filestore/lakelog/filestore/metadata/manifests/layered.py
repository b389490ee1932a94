"""An immutable map whose changed copies cost as much as the change, not as much as the map."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from itertools import chain
from math import isqrt
from typing import Any, Generic, TypeVar  # Any: the types of keys and values are independent

Key = TypeVar("Key")
Value = TypeVar("Value")
_LAYER_MIN = 32


class LayeredMap(Mapping[Key, Value], Generic[Key, Value]):
    """A dict that copies share, and a small layer with the entries that a copy has added and removed. Immutable.

    For n entries in the dict the layer holds at most a few times sqrt(n) entries, then both become a new dict: so in a
    chain of changes, each change copies about sqrt(n) entries. Entries are in the order in which they were added; a
    replaced entry counts as added again. Safe to share between threads.
    """

    __slots__ = ("_added", "_base", "_removed")

    def __init__(self, base: dict[Key, Value] | None = None) -> None:
        """A map of the entries of `base`, which must not change any more."""
        self._base = {} if base is None else base
        self._removed: set[Key] = set()  # keys of the base
        self._added: dict[Key, Value] = {}  # not in the base, or removed from it

    def __getitem__(self, key: Key) -> Value:
        if key in self._added:
            return self._added[key]
        if key in self._removed:
            raise KeyError(key)
        return self._base[key]

    def __contains__(self, key: object) -> bool:
        return key in self._added or (key in self._base and key not in self._removed)

    def __len__(self) -> int:
        return len(self._base) - len(self._removed) + len(self._added)

    def __iter__(self) -> Iterator[Key]:
        return chain(self._left(), self._added)

    # Mapping's own methods, over __iter__ and __getitem__, take several times as long.
    def values(self) -> ValuesView[Value]:
        """The values."""
        return _Values(self)

    def items(self) -> ItemsView[Key, Value]:
        """The keys and their values."""
        return _Items(self)

    def draft(self) -> Draft[Key, Value]:
        """A draft of a changed copy."""
        return Draft(self)

    def _left(self) -> Iterable[Key]:
        return (key for key in self._base if key not in self._removed) if self._removed else self._base

    def _left_items(self) -> Iterable[tuple[Key, Value]]:
        items = self._base.items()
        return (item for item in items if item[0] not in self._removed) if self._removed else items


class _Values(ValuesView[Value]):
    _mapping: LayeredMap[Any, Value]

    def __iter__(self) -> Iterator[Value]:
        layered = self._mapping
        left = (item[1] for item in layered._left_items()) if layered._removed else layered._base.values()
        return chain(left, layered._added.values())


class _Items(ItemsView[Key, Value]):
    _mapping: LayeredMap[Key, Value]

    def __iter__(self) -> Iterator[tuple[Key, Value]]:
        return chain(self._mapping._left_items(), self._mapping._added.items())


class Draft(Generic[Key, Value]):
    """A builder of a changed copy of a map: `done` returns the copy. The map itself is not changed."""

    __slots__ = ("_added", "_base", "_removed")

    def __init__(self, before: LayeredMap[Key, Value]) -> None:
        self._base = before._base
        self._removed = before._removed.copy()
        self._added = before._added.copy()

    def __contains__(self, key: Key) -> bool:
        return key in self._added or (key in self._base and key not in self._removed)

    def add(self, key: Key, value: Value) -> None:
        """Add an entry with a new key."""
        self._added[key] = value

    def put(self, key: Key, value: Value) -> None:
        """Add an entry, or replace it."""
        self.discard(key)
        self._added[key] = value

    def discard(self, key: Key) -> None:
        """Remove an entry, if it exists."""
        if key in self._added:
            del self._added[key]
        elif key in self._base:
            self._removed.add(key)

    def done(self) -> LayeredMap[Key, Value]:
        """The changed copy. The draft must not be used afterwards."""
        if not self._base:
            return LayeredMap(self._added)
        made = LayeredMap(self._base)
        made._removed, made._added = self._removed, self._added
        is_large = len(self._removed) + len(self._added) > _LAYER_MIN + 4 * isqrt(len(self._base))
        return LayeredMap(dict(made.items())) if is_large else made

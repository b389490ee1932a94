"""Verbs of a table that belong together: `table.tags`, `table.branches` and others."""

from __future__ import annotations

import builtins
from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

if TYPE_CHECKING:
    from lakelog.warehouse.handle import TableHandle

AnyTable = TypeVar("AnyTable", bound="TableHandle")
Item = TypeVar("Item")


class VerbGroup(Generic[AnyTable]):
    """Verbs of one table, which is their only state.

    On the command line they are below `lakelog <place>`, under the heading `panel` if others are there too.
    """

    place: ClassVar[str]
    panel: ClassVar[str | None] = None

    def __init__(self, table: AnyTable) -> None:
        """The verbs of a table."""
        self._table = table

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {self._table.name}"


class ListedGroup(VerbGroup[AnyTable], Generic[AnyTable, Item]):
    """A group whose items can be listed, and iterated in the same order."""

    @abstractmethod
    def list(self) -> builtins.list[Item]:
        """The items."""

    def __iter__(self) -> Iterator[Item]:
        return iter(self.list())

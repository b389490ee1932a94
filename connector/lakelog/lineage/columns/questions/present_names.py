"""The present names of datasets and fields that documents name as they were.

A table is known by its uuid and its branch, a column of it by its number in the schema; so both keep their lineage when
they are renamed. Datasets of other systems, and columns without a number, are known by name.

Two things never share a name: of a table and one that was deleted before it under the same name, or of tables of two
warehouses, the one that comes later has the beginning of its uuid behind its name. A dropped column whose name another
column has now is shown with its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lakelog.common.quoting import unicode_of
from lakelog.filestore.schema import BRANCH_INFIX, MAIN_BRANCH
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.field_runs import PresentTable

PRESENT, DROPPED, UNKNOWN = "present", "dropped", "unknown"
_UUID_SHOWN = 8


@dataclass(slots=True)
class NamedField:
    """A field of the index; `place` is its position in the present schema."""

    id: int
    dataset: int
    name: str
    type: str | None
    number: int | None
    state: str
    place: int | None


@dataclass(slots=True)
class NamedDataset:
    """A dataset of the index, and its fields by their names and by their numbers."""

    id: int
    dataset: Dataset
    uuid: str | None
    line: str | None
    is_present: bool
    columns: int
    by_name: dict[str, NamedField] = field(default_factory=dict)
    by_number: dict[int, NamedField] = field(default_factory=dict)


class PresentNames:
    """Gives datasets and fields their present names, and numbers that the index uses."""

    def __init__(self, tables: Iterable[PresentTable]) -> None:
        """Take in the tables that exist: their names go before all others."""
        self._datasets: list[NamedDataset] = []
        self._named: dict[Dataset, NamedDataset] = {}
        self._lines: dict[tuple[str, str], NamedDataset] = {}
        self._fields = 0
        for table in tables:
            self._take(table)

    def __iter__(self) -> Iterator[NamedDataset]:
        return iter(self._datasets)

    def of_table(self, uuid: str, dataset: Dataset, line: str | None = None) -> NamedDataset:
        """A table that has a uuid, under its present name; a table that no longer exists has the given one.

        `line` is the branch, by default that in the name. Of copies of a folder, which share a uuid, it is the one of
        the given name, else the first.
        """
        branch = line or line_of(dataset)
        if not uuid:
            return self.of_name(dataset)
        found = self._named.get(_unicode(dataset))
        if found is not None and (found.uuid, found.line) == (uuid, branch):
            return found
        found = self._lines.get((uuid, branch))
        return self._put(dataset, uuid, branch) if found is None else found

    def of_name(self, dataset: Dataset) -> NamedDataset:
        """A dataset that is known by name alone."""
        found = self._named.get(_unicode(dataset))
        return self._put(dataset, None, None) if found is None else found

    def has_table(self, uuid: str, line: str) -> bool:
        """Whether a table with this uuid is known."""
        return (uuid, line) in self._lines

    def field_of(self, owner: NamedDataset, name: str, number: int | None, type_: str | None = None) -> NamedField:
        """A field under its present name."""
        name = unicode_of(name)
        if number is not None:
            found = owner.by_number.get(number)
            if found is None:
                state = DROPPED if owner.is_present else UNKNOWN
                found = owner.by_name.get(name)
                if found is None or found.number is not None:
                    found = self._new_field(owner, name, type_, number, state)
                found.number, found.state = number, state
                owner.by_number[number] = found
        else:
            found = owner.by_name.get(name) or self._new_field(owner, name, type_, None, UNKNOWN)
        if found.type is None and type_ is not None:
            found.type = unicode_of(type_)
        return found

    def _take(self, table: PresentTable) -> None:
        line = line_of(table.dataset)
        known = self._lines.get((table.uuid, line)) if table.uuid else None
        owner = self._put(table.dataset, table.uuid if known is None else None, line)
        owner.uuid, owner.is_present, owner.columns = table.uuid or None, True, len(table.columns)
        for place, column in enumerate(table.columns):
            one = self._new_field(owner, unicode_of(column.name), column.type, column.id, PRESENT)
            one.place = place
            owner.by_number[column.id] = one

    def _put(self, dataset: Dataset, uuid: str | None, line: str | None) -> NamedDataset:
        name = _free_name(_unicode(dataset), uuid, self._named)
        uuid, line = (None if one is None else unicode_of(one) for one in (uuid, line))
        made = NamedDataset(len(self._datasets), name, uuid, line, False, 0)
        self._datasets.append(made)
        self._named[name] = made
        if uuid:
            self._lines[uuid, line or MAIN_BRANCH] = made
        return made

    def _new_field(
        self, owner: NamedDataset, name: str, type_: str | None, number: int | None, state: str
    ) -> NamedField:
        shown, more = name, 0
        while shown in owner.by_name:
            shown = f"{name} ({state}, number {number}{f', {more}' if more else ''})"
            more += 1
        made = NamedField(
            self._fields, owner.id, shown, None if type_ is None else unicode_of(type_), number, state, None
        )
        self._fields += 1
        owner.by_name[shown] = made
        return made


def line_of(dataset: Dataset) -> str:
    """The branch in the name of a dataset, `main` without one."""
    return dataset.name.partition(BRANCH_INFIX)[2] or MAIN_BRANCH


def _unicode(dataset: Dataset) -> Dataset:
    return Dataset(*map(unicode_of, dataset))


def _free_name(dataset: Dataset, uuid: str | None, taken: dict[Dataset, NamedDataset]) -> Dataset:
    found, more = dataset, 0
    while found in taken:
        found = Dataset(dataset.namespace, f"{dataset.name} ({(uuid or 'other')[: _UUID_SHOWN + more]})")
        more += 1
        if more > len(uuid or ""):
            found = Dataset(dataset.namespace, f"{dataset.name} ({uuid or 'other'}, {more})")
    return found

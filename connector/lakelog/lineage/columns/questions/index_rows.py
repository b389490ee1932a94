"""What the index gives back: datasets, fields, edges and runs."""

from __future__ import annotations

from typing import NamedTuple

from lakelog.lineage.columns.field_edges import Dataset


class IndexedDataset(NamedTuple):
    """A dataset. `is_present`: it is a table of a warehouse; `columns` is the number of columns that it has now."""

    id: int
    namespace: str
    name: str
    uuid: str | None
    line: str | None
    is_present: bool
    columns: int

    @property
    def dataset(self) -> Dataset:
        """Its name."""
        return Dataset(self.namespace, self.name)


class IndexedField(NamedTuple):
    """A field. `number` is that in the schema; `state` is present, dropped or unknown."""

    id: int
    dataset: int
    name: str
    type: str | None
    number: int | None
    state: str
    place: int | None


class IndexedEdge(NamedTuple):
    """An edge of one write; `target` is a field, or for an edge that counts for all fields, None.

    `kind` is the place of the kind in `KINDS`. `sink` is the dataset of the target. `path` is below the source column.
    """

    source: int
    target: int | None
    sink: int
    write: int
    kind: int
    is_masked: bool
    path: str


class IndexedWrite(NamedTuple):
    """One document at one dataset."""

    id: int
    sink: int
    checksum: str
    is_approximate: bool


class WrittenField(NamedTuple):
    """How a write makes a field."""

    write: int
    field: int
    sql: str
    is_opaque: bool


class IndexedRun(NamedTuple):
    """A run of a job; see `FieldRun`."""

    id: int
    write: int
    job: str | None
    run: str
    query: str | None
    operation: str | None
    first_batch: int | None
    last_batch: int | None
    first_millis: int
    last_millis: int
    first_snapshot: int | None
    last_snapshot: int | None
    is_foreign: bool

    def overlaps(self, start_millis: int, end_millis: int) -> bool:
        """Whether a batch was committed in [start, end), or the run was between two batches then."""
        return self.first_millis < end_millis and self.last_millis >= start_millis

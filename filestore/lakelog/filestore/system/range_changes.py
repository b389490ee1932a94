"""The changes between two states of a table: those of each snapshot, or the net difference of the two states.

| source | changes |
|---|---|
| `auto` | the difference between two tags, else those of each snapshot |
| `changelog`, `delta` | those of each snapshot, from its changelog files, or from the files that it added |
| `difference` | one delete, insert or update per key that differs, whatever was in between; needs only both states |

An overwrite adds no row for those that it removes: if it has no changelog, its changes are the difference to the state
before, as readers that follow the changes have seen both: changes that compactions write to a changelog later are not
among them. Source: Paimon, `IncrementalDiffStartingScanner`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.types import ROW_KIND_COLUMN, ROW_KIND_TEXTS, DataField
from lakelog.filestore.metadata.snapshots.snapshot import RESTORE_OPERATION, CommitKind, Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.merging import CHANGELOG_PRODUCER, ChangelogProducer
from lakelog.filestore.options.reading import ChangeSource
from lakelog.filestore.read.changes import (
    change_files,
    find_changes,
    read_change_file,
    snapshots_of_changes,
)
from lakelog.filestore.refs.states.differences import differences
from lakelog.filestore.refs.states.ranges import RangeEnd, RangeName, range_end, state_of
from lakelog.filestore.refs.states.table_state import TableState

_ADDS = ("+I", "+U")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRange:
    """The changes after one end of a range, up to the other: None is before the first snapshot, and the newest one."""

    table: TableStore
    first: RangeEnd | None = None
    last: RangeEnd | None = None
    source: ChangeSource = ChangeSource.AUTO

    @classmethod
    def of(
        cls, table: TableStore, *, after: RangeName | None, up_to: RangeName | None, source: ChangeSource
    ) -> ChangeRange:
        """The range whose ends have these names. Raises InvalidRequestError for one that ends before it begins."""
        first = None if after is None else range_end(table, after, "after")
        last = None if up_to is None else range_end(table, up_to, "up_to")
        if first is not None and last is not None and last.number < first.number:
            raise InvalidRequestError(
                f"there are no changes after snapshot {first.number} and up to snapshot {last.number}: up_to is lower"
            )
        return cls(table=table, first=first, last=last, source=source)

    @property
    def is_difference(self) -> bool:
        """Whether the changes are the difference of the states at both ends, as in Paimon for two tags."""
        are_tags = all(end is not None and end.is_tag for end in (self.first, self.last))
        return self.source is ChangeSource.DIFFERENCE or (self.source is ChangeSource.AUTO and are_tags)

    def states(self) -> tuple[Snapshot | None, Snapshot | None]:
        """The states at both ends. Raises NotFoundError for one that is not kept."""
        old = None if self.first is None else state_of(self.table, self.first)
        return old, self.table.snapshots.latest() if self.last is None else state_of(self.table, self.last)

    def snapshots(self) -> list[Snapshot]:
        """The snapshots of the range. Raises NotFoundError, naming what is kept, if changes have expired."""
        after, up_to = (None if end is None else end.number for end in (self.first, self.last))
        try:
            found = snapshots_of_changes(self.table, after=after, up_to=up_to)
        except NotFoundError as error:
            raise NotFoundError(
                f"{error}; where both states are kept, by snapshots or tags, compare='states' gives what is different"
            ) from error
        for end in (self.first, self.last):
            _check_same_history(self.table, end)
        return found

    def takes_states(self, snapshot: Snapshot) -> bool:
        """Whether the changes of a snapshot are read from the states before and after it."""
        # If compactions write the changes, a restore has no changes if neither of the two states was in a changelog.
        is_told_later = CHANGELOG_PRODUCER.of(self.table.schema.options) in (
            ChangelogProducer.LOOKUP,
            ChangelogProducer.FULL_COMPACTION,
        )
        has_changes = snapshot.changelog_manifest_list is not None or (
            snapshot.operation_name == RESTORE_OPERATION and is_told_later
        )
        return self.source is ChangeSource.AUTO and snapshot.commit_kind is CommitKind.OVERWRITE and not has_changes

    def state_before(self, snapshot: Snapshot) -> Snapshot | None:
        """The state before a snapshot. Raises NotFoundError if that snapshot has expired."""
        return state_of(self.table, RangeEnd(number=snapshot.id - 1))


def range_changes(
    table: TableStore,
    fields: Sequence[DataField],
    *,
    after: RangeName | None,
    up_to: RangeName | None,
    source: ChangeSource,
) -> Iterator[pa.RecordBatch]:
    """The changes of a range, `_row_kind` first. Wrong arguments raise before the first batch.

    Raises as `snapshots_of_changes`; NotFoundError, naming what can be read, if neither changes nor states are kept.
    """
    wanted = ChangeRange.of(table, after=after, up_to=up_to, source=source)
    if wanted.is_difference:
        return _difference(table, fields, *wanted.states())
    return _of_snapshots(wanted, wanted.snapshots(), fields)


def net_rows(
    table: TableStore, fields: Sequence[DataField], *, after: RangeName | None, up_to: RangeName | None
) -> Iterator[pa.RecordBatch]:
    """The rows that are new or changed in the later of two states, each once. Raises as `range_changes`."""
    wanted = ChangeRange.of(table, after=after, up_to=up_to, source=ChangeSource.DIFFERENCE)
    return _added(_difference(table, fields, *wanted.states()))


def _check_same_history(table: TableStore, end: RangeEnd | None) -> None:
    """Raise InvalidRequestError for a tag of a line that was rolled back: its number is another's now."""
    if end is None or end.snapshot is None:
        return
    living = find_changes(table, end.number)
    if living is not None and living.uuid != end.snapshot.uuid:
        raise InvalidRequestError(
            f"snapshot {end.number} of {table.name} is not the one that was tagged: the table was rolled back "
            "since. Its changes cannot be followed from there; compare='states' compares the two"
        )


def _of_snapshots(
    wanted: ChangeRange, snapshots: Sequence[Snapshot], fields: Sequence[DataField]
) -> Iterator[pa.RecordBatch]:
    table = wanted.table
    kind_strings = pa.array(ROW_KIND_TEXTS)
    schema = _schema(fields)
    for snapshot in snapshots:
        if wanted.takes_states(snapshot):
            yield from _difference(table, fields, wanted.state_before(snapshot), snapshot, is_followed=True)
            continue
        for entry in change_files(table, snapshot, wanted.source):
            for batch in read_change_file(table, entry, fields, kind_name=ROW_KIND_COLUMN):
                *values, kinds = batch.columns
                yield pa.RecordBatch.from_arrays([kind_strings.take(kinds), *values], schema=schema)


def _difference(
    table: TableStore,
    fields: Sequence[DataField],
    old: Snapshot | None,
    new: Snapshot | None,
    *,
    is_followed: bool = False,
) -> Iterator[pa.RecordBatch]:
    keys = [field for field in table.schema.fields if field.name in table.schema.primary_keys]
    compared = [*fields, *(key for key in keys if key not in fields)]
    schema = _schema(fields)
    before, after = (TableState(table=table, snapshot=snapshot) for snapshot in (old, new))
    for found in differences(before, after, compared, is_followed=is_followed):
        changes = found.changes().select(schema.names)
        for batch in changes.combine_chunks().to_batches():
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _added(changes: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    wanted = pa.array(_ADDS)
    for batch in changes:
        rows = batch.filter(pc.is_in(batch.column(ROW_KIND_COLUMN), value_set=wanted))
        if rows.num_rows:
            yield rows.drop_columns([ROW_KIND_COLUMN])


def _schema(fields: Sequence[DataField]) -> pa.Schema:
    return pa.schema([pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False), *to_arrow_schema(fields)])

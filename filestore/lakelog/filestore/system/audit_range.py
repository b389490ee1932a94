"""The changes of a range of snapshots with their deletes, for `audit_log` and `binlog`.

They come from changelog files if the table has a changelog producer. Else they come from the files that a commit added,
if these hold the last write of each key, and otherwise from the difference of the two states: after an overwrite, which
adds no row for those that it removes, and in tables that merge in another way than by the last write. No compaction
changes any of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakelog.common.errors import NotFoundError
from lakelog.common.types import ROW_KIND_COLUMN, ROW_KIND_TEXTS, DataField
from lakelog.filestore.merge.engines import row_merge
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.metadata.tables.identity import check_schema, latest_of
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.foreign import OptionUse, check_foreign_options
from lakelog.filestore.options.merging import CHANGELOG_PRODUCER, ChangelogProducer
from lakelog.filestore.options.reading import ChangeSource
from lakelog.filestore.read.changes import change_files, read_change_file, snapshots_of_changes
from lakelog.filestore.read.file_pruning import is_merged_on_read
from lakelog.filestore.refs.states.differences import differences
from lakelog.filestore.refs.states.table_state import TableState
from lakelog.filestore.system.row_tables import ROW_KIND

_KINDS = pa.array(ROW_KIND_TEXTS)


def audit_changes(
    table: TableStore, names: Sequence[str], *, after: int | None, up_to: int | None
) -> Iterator[pa.Table]:
    """The changes of the snapshots after `after`, up to and including `up_to`, in order; the first column is `rowkind`.

    Raises as `snapshots_of_changes`, and NotFoundError if a difference needs a snapshot that has expired.
    """
    check_foreign_options(table.schema.options, OptionUse.READ, table_name=table.name)
    check_schema(table, latest_of(table))
    fields = [field for field in table.schema.fields if field.name in names] or [table.schema.fields[0]]
    for snapshot in snapshots_of_changes(table, after=after, up_to=up_to):
        if _is_in_files(table, snapshot):
            yield from _of_files(table, snapshot, fields)
        elif snapshot.commit_kind in _kinds_that_change(table):
            yield from _of_states(table, snapshot, fields)


def _is_in_files(table: TableStore, snapshot: Snapshot) -> bool:
    """Whether the files of a snapshot hold its changes, deletes included."""
    if CHANGELOG_PRODUCER.of(table.schema.options) is not ChangelogProducer.NONE:
        return snapshot.commit_kind is not CommitKind.OVERWRITE or snapshot.changelog_manifest_list is not None
    keeps_last_write = table.schema.is_change_log or row_merge(table.schema) is None
    return snapshot.commit_kind is CommitKind.APPEND and keeps_last_write and not _hides_new_files(table)


def _kinds_that_change(table: TableStore) -> tuple[CommitKind, ...]:
    """The commits that may change what reads show; if reads show only compacted files, these are compactions."""
    changing = (CommitKind.APPEND, CommitKind.OVERWRITE)
    has_producer = CHANGELOG_PRODUCER.of(table.schema.options) is not ChangelogProducer.NONE
    return (*changing, CommitKind.COMPACT) if _hides_new_files(table) and not has_producer else changing


def _hides_new_files(table: TableStore) -> bool:
    """Whether reads leave out level 0, as with deletion vectors and with `first-row`."""
    schema = table.stored.schema
    return bool(schema.primary_keys) and not is_merged_on_read(schema)


def _of_files(table: TableStore, snapshot: Snapshot, fields: Sequence[DataField]) -> Iterator[pa.Table]:
    for entry in change_files(table, snapshot, ChangeSource.AUTO):
        for batch in read_change_file(table, entry, fields, kind_name=ROW_KIND_COLUMN):
            *values, kinds = batch.columns
            yield pa.table([_KINDS.take(kinds), *values], names=[ROW_KIND, *(field.name for field in fields)])


def _of_states(table: TableStore, snapshot: Snapshot, fields: Sequence[DataField]) -> Iterator[pa.Table]:
    before = TableState(table=table, snapshot=_before(table, snapshot))
    keys = [field for field in table.schema.fields if field.name in table.schema.primary_keys]
    compared = [*fields, *(key for key in keys if key not in fields)]
    names = [ROW_KIND, *(field.name for field in fields)]
    after = TableState(table=table, snapshot=snapshot)
    # Changes that compactions write to a changelog later must not also be among the changes of an overwrite.
    is_followed = CHANGELOG_PRODUCER.of(table.schema.options) is not ChangelogProducer.NONE
    for found in differences(before, after, compared, is_followed=is_followed):
        yield found.changes().rename_columns([ROW_KIND, *(field.name for field in compared)]).select(names)


def _before(table: TableStore, snapshot: Snapshot) -> Snapshot | None:
    if snapshot.id == 1:
        return None
    found = table.snapshots.find(snapshot.id - 1)
    if found is None:
        raise NotFoundError(
            f"the changes of snapshot {snapshot.id} of table {table.name} are the difference from snapshot "
            f"{snapshot.id - 1}, which has expired: name after={snapshot.id} or a higher one"
        )
    return found

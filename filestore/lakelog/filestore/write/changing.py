"""The changes of a statement, computed on one snapshot: a write, an overwrite, a delete, an update."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import UnsupportedError
from lakelog.common.types import RowKind
from lakelog.filestore.metadata.origins.cleared_rows import Clears
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.merging import MERGE_ENGINE, ROWKIND_FIELD
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET
from lakelog.filestore.predicate import Predicate, check_filter
from lakelog.filestore.read.planned_read import PlannedRead
from lakelog.filestore.read.scan import plan_splits
from lakelog.filestore.read.waiting_rows import with_waiting_rows
from lakelog.filestore.schema.row_places import PLACE_FIELDS, PLACE_NAMES, has_place_columns, has_places, without_places
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.write.row_expressions import named_columns, with_values
from lakelog.filestore.write.row_input import RowInput
from lakelog.filestore.write.row_kinds import rows_and_kinds, written_kinds
from lakelog.filestore.write.validate import validate_rows
from lakelog.filestore.write.write import check_kinds_taken, check_table_writable


@dataclass(frozen=True, slots=True)
class AffectedRows:
    """How many rows a statement changes."""

    updated: int = 0
    deleted: int = 0
    inserted: int = 0

    @property
    def affected(self) -> int:
        """All of them."""
        return self.updated + self.deleted + self.inserted

    def __add__(self, other: AffectedRows) -> AffectedRows:
        return AffectedRows(self.updated + other.updated, self.deleted + other.deleted, self.inserted + other.inserted)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementChanges:
    """Checked rows in the table's columns: changes in their order, with kinds (int8), and rows that are removed first.

    `removed` are rows that are removed without the merge engine, in tables in which a retraction does not delete a row.
    `clears` says that all rows of the base, or of some of its partitions, are removed, whatever rows these are.
    `places` are those of rows of the base that are removed: in append-only tables without a log, whose rows are told
    apart by nothing else. `lineage` is what the commit records of their origin, beside what the handle records.
    `counts` is how many rows the actions of a statement change, which `rows` alone do not say.
    """

    rows: pa.Table
    kinds: pa.Array
    removed: pa.Table
    clears: Clears | None = None
    places: pa.Table | None = None
    lineage: Mapping[str, object] = field(default_factory=dict)
    counts: AffectedRows = field(default_factory=AffectedRows)

    @classmethod
    def deletion(cls, table: TableStore, rows: pa.Table) -> StatementChanges:
        """Delete existing rows: by their places, if they have these, which will do alone."""
        if has_place_columns(rows):
            return replace(cls.insertion(table.schema.arrow_schema.empty_table()), places=rows.select(PLACE_NAMES))
        nothing = rows.slice(0, 0)
        if is_removed(table.schema):
            return cls(rows=nothing, kinds=kinds_of(nothing, RowKind.DELETE), removed=rows)
        return cls(rows=rows, kinds=kinds_of(rows, RowKind.DELETE), removed=nothing)

    @classmethod
    def replacement(cls, table: TableStore, old: pa.Table, new: pa.Table) -> StatementChanges:
        """Replace existing rows, each by the row at the same index; by their places, if they have these."""
        if has_place_columns(old):
            return replace(cls.insertion(without_places(new)), places=old.select(PLACE_NAMES))
        if is_removed(table.schema):
            return cls(rows=new, kinds=kinds_of(new, RowKind.INSERT), removed=old)
        if table.schema.primary_keys:
            return cls(rows=new, kinds=kinds_of(new, RowKind.UPDATE_AFTER), removed=old.slice(0, 0))
        kinds = pa.concat_arrays([kinds_of(old, RowKind.UPDATE_BEFORE), kinds_of(new, RowKind.UPDATE_AFTER)])
        return cls(rows=pa.concat_tables([old, new]), kinds=kinds, removed=old.slice(0, 0))

    @classmethod
    def insertion(cls, rows: pa.Table) -> StatementChanges:
        """Add rows."""
        return cls(rows=rows, kinds=kinds_of(rows, RowKind.INSERT), removed=rows.slice(0, 0))

    @classmethod
    def joined(cls, parts: Collection[StatementChanges]) -> StatementChanges:
        """Changes one after the other; the rows that any of them removes are removed first."""
        places = [one.places for one in parts if one.places is not None]
        return cls(
            rows=pa.concat_tables([part.rows for part in parts]),
            kinds=pa.concat_arrays([part.kinds for part in parts]),
            removed=pa.concat_tables([part.removed for part in parts]),
            places=pa.concat_tables(places) if places else None,
        )

    @property
    def row_count(self) -> int:
        """How many rows change."""
        return int(self.rows.num_rows + self.removed.num_rows + (0 if self.places is None else self.places.num_rows))


ChangePlan = Callable[[Snapshot | None], StatementChanges]
"""Works a statement out on a snapshot, None before the first."""


def write_plan(table: TableStore, source: RowInput, kinds: pa.Array | int | None) -> ChangePlan:
    """Add or upsert rows, or apply them as the changes that their kinds name. Raises InvalidRequestError."""
    given = checked_changes(table, source, kinds)
    return lambda _base: given


def checked_changes(table: TableStore, source: RowInput, kinds: pa.Array | int | None) -> StatementChanges:
    """The rows of a source, all in memory, as changes. Raises InvalidRequestError."""
    check_table_writable(table)
    held = source.table
    if held is None:
        held = pa.Table.from_batches(list(source.batches()), source.schema)
    given, own = rows_and_kinds(held, kinds)
    rows = validate_rows(table.schema, given, table_name=table.name)
    found = written_kinds(table.schema, rows, own, table_name=table.name)
    check_kinds_taken(table, found)
    return StatementChanges(rows=rows, kinds=found, removed=rows.slice(0, 0))


def delete_plan(table: TableStore, where: Predicate | None) -> ChangePlan:
    """Delete the rows that meet a condition, or all. Raises InvalidRequestError for a bad condition."""
    check_table_writable(table)
    check_kinds_free(table, "a delete")
    if where is not None:
        check_filter(where, table.schema.fields)

    def plan(base: Snapshot | None) -> StatementChanges:
        changes = StatementChanges.deletion(table, rows_of(table, base, where, needs_values=False))
        return replace(changes, counts=AffectedRows(deleted=changes.row_count))

    return plan


def update_plan(table: TableStore, values: Mapping[str, object], where: Predicate | None) -> ChangePlan:
    """Give new values, or polars expressions over the old row, to the rows that meet a condition.

    Raises InvalidRequestError for columns that the table lacks, and those of the primary key; UnsupportedError for
    tables in which rows cannot be replaced.
    """
    check_replaceable(table, "an update")
    check_table_writable(table)
    if where is not None:
        check_filter(where, table.schema.fields)
    named = named_columns(table, values, "the update")

    def plan(base: Snapshot | None) -> StatementChanges:
        old = rows_of(table, base, where)
        return StatementChanges.replacement(table, old, with_values(table, old, named, what="the update"))

    return plan


def kinds_of(rows: pa.Table, kind: RowKind) -> pa.Array:
    """The same kind for all rows."""
    return pa.nulls(rows.num_rows, pa.int8()).fill_null(int(kind))


def is_removed(schema: TableSchema) -> bool:
    """Whether a retraction does not delete a row of such a logged table, so that rows are removed instead."""
    return schema.is_merged_at_write or not (schema.primary_keys or schema.is_change_log)


def is_by_place(table: TableStore) -> bool:
    """Whether statements know the rows of a table by their places in files: it has no log, and its rows no key."""
    return not (table.has_log or table.schema.primary_keys or table.schema.is_change_log)


def check_replaceable(table: TableStore, what: str) -> None:
    """Raise UnsupportedError for a logged table in which a new row does not replace an old one.

    For a table without a log, also raise it for merge engines that combine rows.
    """
    check_kinds_free(table, what)
    schema = table.schema
    if table.has_log and not (schema.primary_keys or schema.is_change_log):
        raise UnsupportedError(
            f"append-only table {table.name} with a log takes no {what.partition(' ')[2]}: without primary key nothing "
            "says which row of the log a new one replaces, and a row that two statements replace would be there twice; "
            "use delete(where) and write(rows), or a table with a primary key or with write-mode=change-log"
        )
    engine = schema.merge_engine
    if not table.has_log and schema.primary_keys and not engine.traits.keeps_last:
        raise UnsupportedError(
            f"table {table.name} has {MERGE_ENGINE.key}={engine.value}, which combines the rows of a key: {what} would "
            "not replace them; overwrite whole partitions with write(rows, mode='overwrite', where=...)"
        )


def check_kinds_free(table: TableStore, what: str) -> None:
    """Raise UnsupportedError for a table with a column that holds the row kinds: an old row would keep its old kind."""
    name = ROWKIND_FIELD.of(table.schema.options)
    if name is not None:
        raise UnsupportedError(
            f"table {table.name} has {ROWKIND_FIELD.key}={name}, and takes no {what.partition(' ')[2]}: column "
            f"{name!r} holds the kind of a row; write rows with their kinds"
        )


def rows_of(
    table: TableStore,
    snapshot: Snapshot | None,
    where: Predicate | None = None,
    *,
    partitions: Collection[bytes] | None = None,
    buckets: Set[int] | None = None,
    needs_values: bool = True,
) -> pa.Table:
    """The rows of a snapshot that meet a condition, or those of some partitions or buckets, in memory.

    They have the table's columns. Those of a table by places also have the columns of places, and with `needs_values`
    False no others. With deletion vectors the rows that wait for a compaction are included: otherwise the compaction
    would show rows that a statement has missed.
    """
    table = table.placed if is_by_place(table) else with_waiting_rows(table)
    schema = table.schema
    fields = schema.fields if needs_values or not has_places(schema) else PLACE_FIELDS
    splits = plan_splits(table, snapshot, where=where, buckets=buckets).splits
    read = PlannedRead(
        table=table,
        fields=fields,
        where=where,
        splits=[one for one in splits if partitions is None or one.bucket_id.partition in partitions],
        budget_bytes=READ_MEMORY_BUDGET.understood(schema.options),
    )
    return read.to_table().cast(to_arrow_schema(fields))

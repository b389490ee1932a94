"""A table as a statement of Spark sees it: at one snapshot, however often the statement names it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceReader

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.predicate import Predicate
from lakelog.filestore.read import DataSplit
from lakelog.filestore.schema import MAIN_BRANCH, has_places
from lakelog.filestore.write import is_by_place
from lakelog.spark.options import (
    FRESH,
    PATH,
    READ_OPTIONS,
    TIMEZONE,
    ReadOptions,
    known_options,
    parse_read_options,
    read_of,
)
from lakelog.spark.read_ways import check_attached, check_batch
from lakelog.spark.source.batch.batch_readers import batch_reader
from lakelog.spark.source.batch.snapshot_reader import SnapshotReader
from lakelog.spark.source.reading.input_partitions import TableRows
from lakelog.spark.tables import resolve_table
from lakelog.streams.options.shown_state import BRANCH, NEWEST, OF_SPARK, ShownState, branch_of

# Options of a read that change the columns or the state of the table: Spark loads it once for each value of them.
STATE_KEYS = tuple(option.key for option in READ_OPTIONS)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}")


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class LoadedTable:
    """A table, and the snapshot of it that a statement reads; None is the empty table.

    `table` has the files and the columns of that state. `is_named` says that the statement has named the state: such a
    table takes no rows.
    """

    table: Table
    snapshot: Snapshot | None
    options: ReadOptions
    given: Mapping[str, str]
    is_named: bool

    @property
    def version(self) -> str:
        """The commit that is read; Spark loads a table again when the version is another one."""
        return "0" if self.snapshot is None else f"{self.snapshot.id} {self.snapshot.delta_manifest_list}"

    @property
    def identity(self) -> str:
        """The table, its state and the options of the read, by which plans are compared."""
        state = "0" if self.snapshot is None else _short(self.snapshot)
        options = "".join(f" {key}={value!r}" for key, value in sorted(self.given.items()))
        options += " with places" if has_places(self.table.schema) else ""
        return f"{self.table.name} of {self.table.path}@{state}{options}"

    @property
    def is_whole(self) -> bool:
        """Whether the rows are those of the snapshot: no condition in the options, no range of changes, no log."""
        options = self.options
        return options.where is None and options.between is None and not options.log.reads_batch

    def source_options(self) -> dict[str, str]:
        """The options with which `format("lakelog")` opens the table: those of the statement, and where it is."""
        options = {**self.given, PATH.key: self.table.path}
        if self.table.store.branch != MAIN_BRANCH:
            options[BRANCH.key] = self.table.store.branch
        return options

    def check_batch(self) -> None:
        """Raise InvalidRequestError for options that a batch read does not have."""
        check_batch(self.options, table_name=self.table.name, has_log=self.table.log is not None)

    def reader(
        self, schema: spark.StructType, where: Predicate | None, splits: Sequence[DataSplit] | None
    ) -> DataSourceReader:
        """The reader of the snapshot, with these columns and rows, which are in `splits`, if these are known.

        Raises InvalidRequestError.
        """
        options = replace(self.options, where=where)
        if options.between is not None or options.log.reads_batch:
            return batch_reader(resolve_table(self.table), options, schema)
        self.check_batch()
        return SnapshotReader(TableRows.of(self.table.store, None, schema, options), options, [self.snapshot], splits)


def _short(snapshot: Snapshot) -> str:
    """The number of a snapshot, and the beginning of its commit's uuid: the number may be another commit's later."""
    found = _UUID.search(snapshot.delta_manifest_list)
    return f"{snapshot.id} {found[0] if found else snapshot.delta_manifest_list}"


def load_at(catalog: Catalog, name: str, named: ShownState, given: Mapping[str, str], *, zone: str) -> LoadedTable:
    """A table at the state that the words of a statement name (`named`), or its options, or at its newest one.

    Raises NotFoundError, OptionError, and InvalidRequestError for two names of a state.
    """
    if named != NEWEST:  # Spark has made words of its own options, and passes both
        given = {key: value for key, value in given.items() if key.lower() not in OF_SPARK}
    check_attached(given, name)
    asked = {TIMEZONE.key: zone, **given}
    table = catalog.load_table(name)
    branch = branch_of(known_options(asked, READ_OPTIONS))
    if branch is not None:
        table = table.branch(branch)
    opened = table
    table, options = read_of(asked, opened, named)
    if NEWEST not in (named, options.state):
        raise InvalidRequestError(
            f"the statement names two states of {name}, one in its words and one in options: leave one out"
        )
    state = options.state if named == NEWEST else named
    if options.fresh and state != NEWEST:
        raise InvalidRequestError(f"the statement names a state of {name}, and {FRESH.key} the newest: leave one out")
    if options.fresh:
        table = table._of(resolve_table(table).at(fresh=True).store)
        snapshot = table.store.pinned
    else:
        snapshot = opened.store.snapshot(**state.choice)
    return LoadedTable(table=table, snapshot=snapshot, options=options, given=given, is_named=state != NEWEST)


def newest(table: Table) -> LoadedTable:
    """A table at its newest state."""
    options = parse_read_options({}, table)
    return LoadedTable(table=table, snapshot=table.store.snapshot(), options=options, given={}, is_named=False)


def as_changed(table: Table, snapshot: Snapshot | None) -> LoadedTable:
    """A table that a statement changes: a snapshot in the columns of now, with places of rows if they are needed."""
    read = table._of(table.store.placed) if is_by_place(table.store) else table
    return LoadedTable(table=read, snapshot=snapshot, options=parse_read_options({}, read), given={}, is_named=True)

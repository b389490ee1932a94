"""A writer of a table in this process. See `Table.writer`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any  # Any: values of rows

import pyarrow as pa

from lakelog.catalog.logs.statements import after_statement, check_takes_statements
from lakelog.catalog.names.durations import Duration, duration_millis
from lakelog.common.errors import InvalidRequestError
from lakelog.common.file_names import check_user_name
from lakelog.common.options import parse_size_bytes
from lakelog.common.quoting import cut, shown
from lakelog.filestore.metadata.origins import BatchLineage
from lakelog.filestore.write import RowInput, StatementChanges, checked_changes, row_source
from lakelog.logstore.options import SNAPSHOT_INTERVAL
from lakelog.protocol.access import require_kafka_client
from lakelog.protocol.state import writer_user
from lakelog.protocol.writing import IntervalBounds, given_interval
from lakelog.streams.file_writes import FileWrites
from lakelog.streams.log_writes import LogWrites
from lakelog.streams.name_owner import NameOwner
from lakelog.streams.writer import GivenRows, TableWriter
from lakelog.streams.writes import Lineage, Writes
from lakelog.warehouse.handle import TableHandle

if TYPE_CHECKING:
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.filestore.metadata.tables import TableStore
    from lakelog.filestore.schema import TableSchema
    from lakelog.protocol.stores import LogTarget

_INTERVAL_MILLIS = 1_000  # a snapshot a write would make the next write wait for it


def open_writer(
    table: TableHandle, name: str, *, linger: Duration, snapshot_interval: Duration | None, memory_max: int | str
) -> TableWriter:
    """A writer of a table. See `Table.writer`."""
    check_user_name(name, "writer")
    store = table.store
    owner = NameOwner(store, f"{store.paths.own_root}/lakelog/writers", f"{name}-", f"writer {name!r}")
    linger_seconds = duration_millis(linger, argument="linger") / 1000
    memory_bytes = _bytes_of(memory_max)
    if snapshot_interval is not None:
        millis = duration_millis(snapshot_interval, argument="snapshot_interval")
        given_interval(f"{millis} ms", store)
    opened = _Opened(table)
    writes: Writes
    if table.log is None:
        bounds = None
        owner.take()
        writes = FileWrites(user=writer_user(name), table=store, check_run=owner.check)
    else:
        require_kafka_client()
        check_takes_statements(table)
        if snapshot_interval is None:
            millis = SNAPSHOT_INTERVAL.of(store.schema.options) or _INTERVAL_MILLIS
        bounds = IntervalBounds.of(store.schema.options, millis=millis)
        owner.take()
        writes = LogWrites(writer_user(name), opened, check_run=owner.check)
    return TableWriter(
        writes,
        name=name,
        table_name=store.name,
        rows_of=opened.rows_of,
        check=opened.check,
        bounds=bounds,
        linger_seconds=linger_seconds,
        memory_max=memory_bytes,
        after_snapshot=opened.keep_up,
        lineage_of=lru_cache(partial(_lineage_of, table)),
    )


def _lineage_of(table: TableHandle, names: tuple[str, ...]) -> Lineage | None:
    """The lineage of the sources that a write names; the job is that of the table's handle."""
    from lakelog.lineage import made_from

    if not names:
        return None
    job = None if table.store.lineage is None else BatchLineage.from_json(table.store.lineage).job
    return made_from(table, *names, job=job).store.lineage


def _bytes_of(given: int | str) -> int:
    try:
        return parse_size_bytes(given) if isinstance(given, str) else given
    except ValueError as error:
        raise InvalidRequestError(f"memory_max is {shown(given)}; expected a size such as 64 mb") from error


class _Opened:
    """A table, and its log if it has one, as they are now."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    def __call__(self) -> tuple[TableStore, LogTarget]:
        """The table with its newest schema, and its log, once the topic exists."""
        from lakelog.protocol.access import await_topic
        from lakelog.protocol.statements import target_of

        store = self._table.store
        newest = store.schemas.latest()
        if newest is not None and newest.id != store.schema.id:
            self._table = TableHandle(
                replace(store, schema=newest), identifier=self._table.identifier, kafka=self._table.kafka
            )
        log = self._table.log
        if log is None:
            raise InvalidRequestError(f"table {store.name} no longer has a log: open another writer")
        await_topic(log)
        return self._table.store, target_of(log)

    def rows_of(self, rows: GivenRows) -> pa.Table:
        """Rows as users give them, in memory. Raises InvalidRequestError."""
        return rows_of(self._table.store, rows)

    def check(self, rows: pa.Table, kinds: pa.Array | int | None) -> StatementChanges:
        """The changes of rows, whose records the topic takes."""
        store, log = self._table.store, self._table.log
        changes = checked_changes(store, RowInput(schema=rows.schema, table=rows), kinds)
        if log is None:
            return changes
        from lakelog.logstore.kafka.clients.record_limit import record_limit
        from lakelog.protocol.access import kafka_topic

        schema = store.schema
        limit = record_limit(kafka_topic(log))
        limit.check_changes(changes.rows, changes.kinds, schema.fields, schema.primary_keys, log.mode)
        return changes

    def keep_up(self, snapshot: Snapshot) -> None:
        """What is due behind a snapshot, by the options that the table has now."""
        after_statement(self._table, snapshot)


def rows_of(store: TableStore, rows: GivenRows) -> pa.Table:
    """Rows as users of a writer give them, in memory. Raises InvalidRequestError."""
    if isinstance(rows, Mapping):
        rows = [rows]
    source = row_source(_of_dictionaries(store.schema, rows) if isinstance(rows, Sequence) else rows)
    return pa.Table.from_batches(list(source.batches()), source.schema) if source.table is None else source.table


def _of_dictionaries(schema: TableSchema, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows by column: each column has the table's type; a column that a row lacks is null there."""
    known = {field.name: field.type for field in schema.arrow_schema}
    columns: dict[str, pa.Array] = {} if rows else {name: pa.array([], kind) for name, kind in known.items()}
    for row in rows:
        if not isinstance(row, Mapping):
            raise InvalidRequestError(f"a list of rows has dictionaries {{column: value}}; found {shown(row)}")
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values, known.get(name))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError) as error:
            raise InvalidRequestError(
                f"column {name!r} has values that are not of its type {known.get(name)}: {cut(str(error))}"
            ) from error
    return pa.table(columns)

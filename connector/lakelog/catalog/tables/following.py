"""A stream of a table in this process. See `Table.follow`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lakelog.catalog.names.read_words import Keys, Position
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.timestamps import millis_of
from lakelog.common.types import ROW_KIND_COLUMN
from lakelog.filestore.predicate import RowTest, predicate_of, resolved_columns
from lakelog.logstore.options import LogScan
from lakelog.protocol.access import require_kafka_client
from lakelog.protocol.state import HeaderFiles, TablePosition
from lakelog.streams.follower import ABOUT, ChangeStream
from lakelog.streams.live_rows import LiveRows
from lakelog.streams.named_consumers import NamedConsumer
from lakelog.streams.opening import log_to_read, older_topic
from lakelog.streams.options.align_options import Align, Alignment
from lakelog.streams.options.log_options import LogReading
from lakelog.streams.options.shown_state import NEWEST, ShownState
from lakelog.streams.options.stream_read import StreamRead
from lakelog.streams.phases.stream_log import nothing_in_hand
from lakelog.streams.planner import StreamPlanner
from lakelog.streams.reading.metadata_columns import ARROW_TYPES
from lakelog.streams.reading.offsets import FollowOffset
from lakelog.streams.reading.part_rows import PartRows
from lakelog.streams.stream_places import StreamPlace

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.predicate import Predicate
    from lakelog.logstore.kafka.records.record_watch import CountOf
    from lakelog.warehouse.handle import TableHandle

SNAPSHOT, LATEST = "snapshot", "latest"
FollowStart = Position | datetime


def follow(
    table: TableHandle,
    *,
    start: FollowStart,
    consumer: str | None,
    until: Position | None,
    columns: str | Sequence[str] | None,
    where: str | Predicate | None,
) -> ChangeStream:
    """The stream of a table. See `Table.follow`."""
    store, log = table.store, log_to_read(table.store, table.log)
    scan, state, position = _start_of(store, start)
    end = None if until in (None, LATEST) else TablePosition.given(store, until)
    read = StreamRead(
        columns=tuple(field.name for field in store.schema.chosen(columns)),
        where=predicate_of(where, fields=store.schema.fields),
        has_row_kind=True,
        state=state,
        log=LogReading(
            scan=scan,
            metadata=() if log is None else ABOUT,
            # A snapshot a batch: its changes are always in the same order.
            alignment=Alignment(align=Align.SNAPSHOT) if log is None else Alignment(),
        ),
    )
    target = watch = None
    if log is not None:
        require_kafka_client()
        from lakelog.logstore.kafka.records.record_watch import RecordWatch
        from lakelog.protocol.statements import target_of

        target = target_of(log)
        watch = RecordWatch(target.topic, _count_of(store))
        _check_names(store)
    planner = StreamPlanner(
        store,
        target,
        read,
        check_log=None if log is None else log.check_topic,
        find_topic=partial(older_topic, store, warehouse=table.warehouse, path=table.path, kafka=table.kafka),
        in_hand=nothing_in_hand if watch is None else watch.has,
    )
    named = None if consumer is None else NamedConsumer(store, consumer, None if log is None else log.topic_id)
    place = None
    if named is not None:
        named.take()
        place = named.find()
    if place is None:
        begun = StreamPlace(table=store, offset=planner.initial())
        place = begun if position is None else _place(store, planner, position)
    rows = replace(_rows(store, read, planner), in_hand=None if watch is None else watch.ahead)
    return ChangeStream(planner, rows, place, watch=watch, consumer=named, until=end, ends=until == LATEST)


def _count_of(store: FileStoreTable) -> CountOf:
    """The function that says how many records the transaction of a header has."""
    headers = HeaderFiles(store)
    return lambda offset, data: headers.record_count(data, where=f"offset {offset} of the log of {store.name}")


def _start_of(store: FileStoreTable, start: FollowStart) -> tuple[LogScan, ShownState, TablePosition | None]:
    if start == SNAPSHOT:
        return LogScan.FULL, NEWEST, None
    if start == LATEST:
        return LogScan.LATEST, NEWEST, None
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise InvalidRequestError(
                f"start is {start}, which has no zone: give one, such as datetime(2026, 1, 31, tzinfo=UTC)"
            )
        return LogScan.FROM_TIMESTAMP, ShownState(timestamp_millis=millis_of(start)), None
    return LogScan.FULL, NEWEST, TablePosition.given(store, start)


def _check_names(store: FileStoreTable) -> None:
    """Raise InvalidRequestError for a table with columns of names that a stream of a log needs for itself."""
    own = {one.name.lower() for one in store.schema.fields}
    taken = [one.column for one in ABOUT if one.column in own]
    if taken:
        raise InvalidRequestError(
            f"table {store.name} has the column {taken[0]!r}, a name that a stream of its log needs for the place of a "
            "record: rename the column, or follow the table with Spark"
        )


def _place(store: FileStoreTable, planner: StreamPlanner, position: TablePosition) -> StreamPlace:
    """Where a stream goes on from a position. Raises InvalidRequestError for that of another table or branch."""
    position.check_is_of(store.uuid, store.branch)
    if position.stream is not None:
        return StreamPlace.of_stream(store, position.stream)
    if position.topic_id is None:
        return StreamPlace(table=store, offset=FollowOffset(consumed=position.snapshot_id))
    offset = planner.placed(position.topic_id, position.offsets, consumed=position.snapshot_id)
    return StreamPlace(table=store, offset=offset)


def _rows(store: FileStoreTable, read: StreamRead, planner: StreamPlanner) -> PartRows:
    assert read.columns is not None
    fields = store.schema.select(read.columns)
    whole = store.schema.arrow_schema
    about = [pa.field(one.column, kind) for one, kind in ARROW_TYPES.items() if one in read.log.metadata]
    schema = pa.schema(
        [pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False), *(whole.field(one.name) for one in fields), *about]
    )
    return PartRows(
        table=store,
        target=planner.target,
        fields=fields,
        where=read.where,
        has_row_kind=True,
        schema=schema,
        metadata=read.log.metadata,
    )


def live(
    table: TableHandle,
    *,
    keys: Keys | None,
    where: str | Predicate | None,
    columns: Sequence[str] | None,
    rows_max: int,
) -> LiveRows:
    """The rows of a table in memory. See `Table.live`."""
    schema = table.store.schema
    key = schema.primary_keys
    condition = predicate_of(where, fields=schema.fields)
    if not key:
        raise UnsupportedError(f"table {table.store.name} has no primary key: follow it, and keep what you need")
    shown = [one.name for one in schema.chosen(columns)]
    held = [*shown, *(name for name in key if name not in shown)]
    # A stream leaves out a change that does not pass; here it says that its key has no such row any more.
    tested = () if condition is None else (one.name for one in resolved_columns(condition, schema.fields))
    read = [*held, *(name for name in tested if name not in held)]
    changes = follow(table, start=SNAPSHOT, consumer=None, until=None, columns=read, where=None)
    return LiveRows(
        changes,
        key=key,
        schema=pa.schema([schema.arrow_schema.field(name) for name in held]),
        rows_max=rows_max,
        keeps_first=schema.options.get("merge-engine") == "first-row",
        keys=None if keys is None else [keys] if isinstance(keys, Mapping) else keys,
        passing=None if condition is None else RowTest(condition, schema.fields).passing,
    )

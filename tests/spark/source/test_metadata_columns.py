"""Metadata columns of records and of rows of snapshots, without a log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import CorruptDataError, InvalidRequestError
from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.state.header_files import BatchMark
from lakelog.streams.options.log_options import MetadataColumn
from lakelog.streams.reading.metadata_columns import LogMetadata, check_metadata, with_snapshot_metadata
from lakelog.streams.reading.parts import SnapshotMark

ALL = tuple(MetadataColumn)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    return Catalog(tmp_path).create_table("db.t", schema=schema, primary_keys=["id"])


def header(user: str, identifier: int, watermark_millis: int | None = None) -> bytes:
    return CommitHeader(
        table_uuid="u",
        user=user,
        identifier=identifier,
        source_digest=None,
        schema_id=0,
        base_snapshot_id=0,
        record_count=1,
        size_bytes=1,
        files=(),
        watermark_millis=watermark_millis,
    ).to_bytes()


def rows(*offsets: int) -> pa.RecordBatch:
    times = pa.array([offset * 1_000 for offset in offsets], pa.timestamp("ms", tz="UTC"))
    return pa.record_batch({"_offset": pa.array(offsets, pa.int64()), "_timestamp": times})


def about(table: Table, *, ends: tuple[tuple[int, int], ...] = ()) -> LogMetadata:
    return LogMetadata(table.store, ALL, bucket=2, where="topic t, partition 2", snapshot_ends=ends)


def shown(batch: pa.RecordBatch, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in batch.to_pylist()]


def test_a_record_shows_the_batch_whose_transaction_it_is_in(table: Table) -> None:
    metadata = about(table)
    assert metadata.on_header is not None
    metadata.on_header(4, header("a", 1))
    metadata.on_header(7, header("b", 9, 1_500))
    first = metadata.add_to(rows(2, 4, 5, 7, 7))
    second = metadata.add_to(rows(8))  # still of the last transaction

    assert shown(first, "_offset", "_user", "_batch_id") == [
        (2, None, None),  # of a transaction that began before the range
        (4, "a", 1),
        (5, "a", 1),
        (7, "b", 9),
        (7, "b", 9),
    ]
    assert shown(second, "_bucket", "_user", "_batch_id") == [(2, "b", 9)]
    assert [None if at is None else at.timestamp() for at in first.column("_watermark").to_pylist()][3:] == [1.5, 1.5]


def test_a_record_shows_the_snapshot_that_took_it_in_where_it_is_known(table: Table) -> None:
    batch = about(table, ends=((3, 0), (5, 2), (9, 0), (12, 8))).add_to(rows(3, 4, 5, 11, 12))

    assert shown(batch, "_offset", "_snapshot_id") == [(3, 2), (4, 2), (5, None), (11, 8), (12, None)]
    assert shown(about(table).add_to(rows(3)), "_snapshot_id") == [(None,)]


def test_a_row_of_a_snapshot_shows_snapshot_and_bucket_and_no_record() -> None:
    given = pa.record_batch({"id": pa.array([1, 2])})

    batch = with_snapshot_metadata(given, ALL, bucket=3, snapshot=SnapshotMark(id=5, watermark_millis=2_000))

    names = ("_bucket", "_offset", "_timestamp", "_user", "_batch_id", "_snapshot_id")
    assert shown(batch, *names) == [(3, None, None, None, None, 5)] * 2
    assert [at.timestamp() for at in batch.column("_watermark").to_pylist()] == [2.0, 2.0]


@pytest.mark.parametrize("watermark", [-(1 << 63), (1 << 63) - 1])
def test_a_watermark_that_is_no_time_is_null(table: Table, watermark: int) -> None:
    metadata = about(table)
    assert metadata.on_header is not None
    metadata.on_header(0, header("a", 1, watermark))
    snapshot = table.write(pa.table({"id": pa.array([1], pa.int64())}))

    assert shown(metadata.add_to(rows(0)), "_watermark") == [(None,)]
    assert SnapshotMark.of(replace(snapshot, watermark=watermark)).watermark_millis is None


def test_a_header_that_is_a_file_may_be_deleted_and_its_batch_is_still_shown(table: Table) -> None:
    named = b'{"v":2,"table":"%s","file":"header-%s-0-blake2b-%s","user":"a","id":4}'
    data = named % (table.uuid.encode(), b"0" * 36, b"0" * 32)
    metadata = about(table)
    assert metadata.on_header is not None
    metadata.on_header(0, data)
    metadata.on_header(1, data.replace(b',"user":"a","id":4', b""))

    assert shown(metadata.add_to(rows(0, 1)), "_user", "_batch_id") == [("a", 4), (None, None)]


def test_a_header_that_is_none_is_named_by_its_offset(table: Table) -> None:
    metadata = about(table)
    assert metadata.on_header is not None

    with pytest.raises(CorruptDataError, match="commit header at topic t, partition 2, offset 6 is not readable"):
        metadata.on_header(6, b'{"user": 1}')


def test_a_batch_without_watermark_has_no_key_for_it() -> None:
    assert b"watermark" not in header("a", 1)
    assert BatchMark.from_bytes(header("a", 1, 5), where="w") == BatchMark(user="a", identifier=1, watermark_millis=5)
    assert CommitHeader.from_bytes(header("a", 1, 5), where="w").watermark_millis == 5


def test_a_column_of_the_table_is_never_hidden_by_one_about_it(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("_Offset", pa.int64())])
    own = Catalog(tmp_path).create_table("db.t", schema=schema, primary_keys=["id"])

    with pytest.raises(InvalidRequestError, match=r"has a column '_offset' of its own: leave 'offset' out"):
        check_metadata(ALL, own.schema, table_name="db.t")
    check_metadata(ALL[:1], own.schema, table_name="db.t")


def test_the_offset_is_never_that_of_a_column_of_the_table(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("_offset", pa.int64())])
    own = Catalog(tmp_path).create_table("db.t", schema=schema, primary_keys=["id"])

    with pytest.raises(InvalidRequestError, match="has a column '_offset' of its own"):
        check_metadata(ALL[:1], own.schema, table_name="db.t")
    check_metadata((), own.schema, table_name="db.t")

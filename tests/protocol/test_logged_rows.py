"""Rows of a table with a log: what stays of them, their records, and which tables may have one."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.logstore.codec.debezium import encode_changes
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.options import ChangelogMode
from lakelog.protocol.state.loggable import check_loggable
from lakelog.protocol.state.ports import PartBase
from lakelog.protocol.stores.encoded_parts import EncodedChanges
from lakelog.protocol.stores.log_target import LogTarget
from lakelog.protocol.stores.logged_rows import split_rows, staying_rows, write_level0
from lakelog.protocol.stores.task_stores import TaskFiles
from tests.filestore.write.test_write import FOUR, KINDS, NO_PARTITION, TYPES, make, rows

BUCKET = BucketId(NO_PARTITION, 0)
INSERTS = pa.array([0, 0, 0, 0], pa.int8())
SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int32()), pa.field("kind", pa.string())]
)


def test_the_last_row_of_each_key_stays_with_its_arrival_as_sequence_number(tmp_path: Path) -> None:
    table = make(tmp_path)
    newest = staying_rows(table, FOUR, KINDS)
    (file,) = write_level0(table, BUCKET, newest, first_sequence=100)
    stored = pq.read_table(table.data_path(BUCKET, file))
    assert stored.column_names == ["_KEY_name", "_KEY_ratio", "_SEQUENCE_NUMBER", "_VALUE_KIND", *TYPES]
    assert stored["_KEY_name"].to_pylist() == stored["name"].to_pylist() == ["a", "a", "b"]
    assert str(stored["_KEY_ratio"].to_pylist()) == "[-0.0, nan, 1.0]"
    assert stored["_SEQUENCE_NUMBER"].to_pylist() == [103, 101, 102]
    assert stored["_VALUE_KIND"].to_pylist() == [2, 0, 3]
    assert newest.rows["amount"].to_pylist() == [None, Decimal("2.00"), Decimal("3.00")]
    assert newest.kinds.to_pylist() == [2, 0, 3]
    assert newest.given_count == 4


def test_rows_are_split_by_partition_and_bucket_in_arrival_order(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "2"}, partition_keys=["name"])
    many = rows(*((name, number / 2, str(number)) for number in range(20) for name in ("x", "y")))
    parts = split_rows(table, many, pa.array([number % 4 for number in range(40)], pa.int8()))
    assert sorted((part.bucket_id.partition[-8:-7], part.bucket_id.number) for part in parts) == [
        (name, bucket) for name in (b"x", b"y") for bucket in (0, 1)
    ]
    assert sum(part.rows.num_rows for part in parts) == 40
    for part in parts:
        amounts = part.rows["amount"].to_pylist()
        assert amounts == sorted(amounts)
        names = part.rows["name"].to_pylist()
        assert part.kinds.to_pylist() == [
            (2 * int(amount) + (name == "y")) % 4 for name, amount in zip(names, amounts, strict=True)
        ]


def test_all_rows_of_an_append_only_table_stay_as_they_came(tmp_path: Path) -> None:
    table = make(tmp_path, primary_keys=[])
    (file,) = write_level0(table, BUCKET, staying_rows(table, FOUR, INSERTS), first_sequence=100)
    stored = pq.read_table(table.data_path(BUCKET, file))
    assert stored.column_names == [*TYPES]
    assert stored["amount"].to_pylist() == FOUR["amount"].to_pylist()
    assert (file.min_sequence_number, file.max_sequence_number) == (100, 103)


def test_a_value_count_table_gets_each_row_once_with_its_sum(tmp_path: Path) -> None:
    table = make(tmp_path, {"write-mode": "change-log"}, primary_keys=[])
    many = rows(("a", 0.5, "1"), ("b", 0.5, "1"), ("a", 0.5, "1"), ("c", 0.5, None), ("b", 0.5, "1"), ("c", 0.5, None))
    kinds = pa.array([0, 0, 2, 1, 3, 3], pa.int8())
    staying = staying_rows(table, many, kinds)
    (file,) = write_level0(table, BUCKET, staying, first_sequence=100)
    stored = pq.read_table(table.data_path(BUCKET, file))
    assert list(zip(stored["name"].to_pylist(), stored["_VALUE_COUNT"].to_pylist(), strict=True)) == [
        ("a", 2),
        ("c", -2),
    ]
    assert stored["_SEQUENCE_NUMBER"].to_pylist() == [102, 105]
    assert staying.given_count == 6


def test_a_part_that_adds_what_it_takes_away_has_no_file(tmp_path: Path) -> None:
    table = make(tmp_path, {"write-mode": "change-log"}, primary_keys=[])
    staying = staying_rows(table, FOUR.slice(0, 1).take([0, 0]), pa.array([0, 3], pa.int8()))
    assert write_level0(table, BUCKET, staying, first_sequence=0) == ()


@pytest.mark.parametrize(("row_count", "record_count"), [(4, 1), (0, 0)])
def test_files_without_changes_to_log_have_a_header_record(tmp_path: Path, row_count: int, record_count: int) -> None:
    table = make(tmp_path)
    staying = staying_rows(table, FOUR.slice(0, row_count), KINDS.slice(0, row_count))
    fields = table.schema.fields
    nothing = encode_changes(FOUR.slice(0, 0), None, fields, ["name"], ChangelogMode.ALL)
    encoded = EncodedChanges(parts=((BUCKET, staying),), records=nothing)
    target = LogTarget(topic=KafkaTopic(client_config={}, name="t"), topic_id="i", mode=ChangelogMode.ALL)
    base = PartBase(first_sequence=0, snapshot_id=0, tail=())
    part = TaskFiles(table, target).prepare(0, lambda _base: encoded, base)
    assert (part.record_count, len(part.files)) == (record_count, record_count)
    assert part.is_empty == (not record_count)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"changelog-producer": "input"}, "which holds every change that is written"),
        ({"deletion-vectors.enabled": "true"}, "must show everything in it"),
    ],
)
def test_tables_whose_log_would_not_be_their_files_are_refused(options: dict[str, str], message: str) -> None:
    schema = build_schema(SCHEMA, primary_keys=["id"], options=options)
    with pytest.raises(UnsupportedError, match=message):
        check_loggable(schema, table_name="db.t")


@pytest.mark.parametrize(
    ("primary_keys", "bucket", "message"),
    [
        (["id"], "-1", "found bucket=-1, with which the bucket of a new key is chosen when a snapshot is made"),
        (["id"], "-2", "found bucket=-2, with which rows get theirs when they are compacted"),
        ([], "-1", "found bucket=-1, with which rows have none; set bucket to a positive number"),
    ],
)
def test_a_log_needs_a_bucket_for_each_row(primary_keys: list[str], bucket: str, message: str) -> None:
    schema = build_schema(SCHEMA, primary_keys=primary_keys)
    with pytest.raises(InvalidRequestError, match=message):
        check_loggable(replace(schema, options={**schema.options, "bucket": bucket}), table_name="db.t")


@pytest.mark.parametrize("options", [{}, {"write-mode": "change-log"}])
def test_tables_without_primary_key_may_have_a_log(options: dict[str, str]) -> None:
    check_loggable(build_schema(SCHEMA, options=options), table_name="db.t")

"""Rows of a table with a log: what stays of them, and which tables may have one."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.common.errors import UnsupportedError
from lakelog.filestore.metadata.manifest_entries import BucketId
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.protocol.loggable import check_loggable
from lakelog.protocol.logged_rows import newest_of, split_rows, write_level0
from tests.filestore.write.test_write import FOUR, KINDS, NO_PARTITION, TYPES, make, rows

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int32()), pa.field("kind", pa.string())]
)


def test_the_last_row_of_each_key_stays_with_its_arrival_as_sequence_number(tmp_path: Path) -> None:
    table = make(tmp_path)
    newest = newest_of(table.schema, FOUR, KINDS)
    (file,) = write_level0(table, BucketId(NO_PARTITION, 0), newest, first_sequence=100)
    stored = pq.read_table(table.data_path(BucketId(NO_PARTITION, 0), file))
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bucket": "-1"}, "whose partitions are the buckets of the table: their number must be fixed"),
        ({"changelog-producer": "input"}, "which holds every change that is written"),
        ({"rowkind.field": "kind"}, r"column _row_kind, and leave out rowkind\.field"),
        ({"deletion-vectors.enabled": "true"}, "must show all that the log holds"),
        ({"merge-engine": "aggregation"}, "merge-engine, sequence.field and ignore-delete are for tables without"),
        ({"sequence.field": "n"}, "merge-engine, sequence.field and ignore-delete are for tables without"),
    ],
)
def test_tables_whose_log_would_not_be_their_files_are_refused(options: dict[str, str], message: str) -> None:
    schema = build_schema(SCHEMA, primary_keys=["id"], options=options)
    with pytest.raises(UnsupportedError, match=message):
        check_loggable(schema, table_name="db.t")

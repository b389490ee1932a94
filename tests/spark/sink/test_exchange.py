"""Rows on their way to the tasks that own their buckets."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.catalog import Catalog
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.encoding.bucket import bucket_of
from lakelog.filestore.table import FileStoreTable
from lakelog.logstore.kafka.clients.record_limit import RecordLimit
from lakelog.logstore.options import ChangelogMode
from lakelog.spark.sink.exchange import SORT_PREFIX, Sender, check_owned, in_order, received

BUCKETS = 5
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> FileStoreTable:
    catalog = Catalog(tmp_path_factory.mktemp("lake"))
    made = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": str(BUCKETS)})
    return made.store


def batches_of(ids: list[int]) -> list[pa.RecordBatch]:
    rows = pa.table([pa.array(ids, pa.int64()), pa.array([f"{at}" for at in range(len(ids))])], schema=SCHEMA)
    batches: list[pa.RecordBatch] = rows.to_batches(max_chunksize=3)
    return batches


@given(senders=st.lists(st.lists(st.integers(0, 30), max_size=12), min_size=1, max_size=3), tasks=st.integers(1, 3))
def test_each_bucket_comes_to_one_task_in_the_order_of_its_rows(
    table: FileStoreTable, senders: list[list[int]], tasks: int
) -> None:
    sender = Sender(table=table, task_count=tasks)
    blocks = [block for number, ids in enumerate(senders) for block in sender.blocks(batches_of(ids), number)]
    everything = [(key, f"{at}") for ids in senders for at, key in enumerate(ids)]

    found = 0
    for task in range(tasks):
        mine = [block.filter(pa.array([one == task for one in block["task"].to_pylist()])) for block in blocks]
        parts = received(reversed(mine))
        check_owned(parts, tasks, task, "db.t")
        for bucket, part in parts.items():
            keys = pa.table([pa.array([key for key, _ in everything], pa.int64())], schema=SCHEMA.remove(1))
            owners = bucket_of(keys, table.schema.bucket_fields, BUCKETS, table.schema.bucket_function)
            expected = [row for row, owner in zip(everything, owners, strict=True) if owner == bucket]
            assert list(zip(part["id"].to_pylist(), part["v"].to_pylist(), strict=True)) == expected
            found += part.num_rows
    assert found == len(everything)


def test_the_users_order_comes_first_and_nulls_are_oldest() -> None:
    rows = pa.table({"v": [1, 2, 3, 4], f"{SORT_PREFIX}0": [5, None, 4, 5]})

    assert in_order(rows)["v"].to_pylist() == [2, 3, 1, 4]
    assert in_order(rows).column_names == ["v"]


def test_a_row_that_the_topic_refuses_reaches_every_task_as_an_error(table: FileStoreTable) -> None:
    limit = RecordLimit(topic="t", servers="broker:1", partition_count=BUCKETS, message_bytes=1256)
    sender = Sender(table=table, task_count=2, limit=limit, mode=ChangelogMode.UPSERT)
    fine = pa.table([pa.array([1], pa.int64()), pa.array(["x" * 700])], schema=SCHEMA)
    large = pa.table([pa.array([1, 7], pa.int64()), pa.array(["x", "x" * 900])], schema=SCHEMA)
    assert len(list(sender.blocks(fine.to_batches(), 0))) == 1

    with pytest.raises(InvalidRequestError, match=r'topic t at broker:1: the record with key {"id":7} has'):
        list(sender.blocks(large.to_batches(), 0))


def test_rows_of_another_tasks_bucket_are_refused_and_the_helper_is_named() -> None:
    check_owned([1, 3, 5], 2, 1, "db.t")

    with pytest.raises(InvalidRequestError, match=r"bucket 4 of table db\.t.*lakelog\.spark\.write_stream"):
        check_owned([1, 4], 2, 1, "db.t")

"""Rules of eventual logs, one law each."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.filestore.metadata.snapshots.users import CommitUser
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.schema import TableSchema
from lakelog.logstore.kafka.records.authors import Author
from lakelog.logstore.options import LOGSTORE_OPTIONS, PREFIXES
from lakelog.protocol.state.loggable import check_loggable
from lakelog.protocol.state.state import Batch, LogPosition
from lakelog.protocol.stores.log_gaps import held_nothing
from lakelog.protocol.upkeep.log_check import BucketCheck
from lakelog.protocol.writing.eventual import check_no_other_left, check_transactional

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int32())])
EVENTUAL = {"bucket": "2", "log.system": "kafka", "log.consistency": "eventual"}
USERS = {"a": CommitUser(identifier=4, digest=None, time_millis=0)}
BATCH = Batch(user="a", identifier=5, source_digest=None)


def schema_with(options: dict[str, str]) -> TableSchema:
    return build_schema(SCHEMA, primary_keys=["id"], options=options, also=LOGSTORE_OPTIONS, also_prefixes=PREFIXES)


def check_left(*authors: Author) -> None:
    check_no_other_left(BATCH, 1, authors, USERS, table_name="db.t")


def test_records_of_ones_own_batch_and_of_batches_in_a_snapshot_may_be_left() -> None:
    check_left(Author("a", 5), Author("a", 4), Author("a", 0))


def test_records_of_another_querys_unfinished_batch_stop_the_writer() -> None:
    with pytest.raises(InvalidRequestError, match=r"bucket 1 of table db.t has records of batch 0 of the query b"):
        check_left(Author("a", 5), Author("b", 0))


def test_records_of_a_later_batch_of_ones_own_show_a_checkpoint_that_was_reset() -> None:
    with pytest.raises(InvalidRequestError, match=r"batch 5 of a is too old: .*records of its batch 6"):
        check_left(Author("a", 6))


def test_a_batch_that_is_run_again_from_other_source_offsets_is_refused() -> None:
    batch = Batch(user="a", identifier=5, source_digest="new")
    check_no_other_left(batch, 1, [Author("a", 5, "new"), Author("a", 5), Author("a", 4, "old")], USERS, table_name="t")
    with pytest.raises(InvalidRequestError, match=r"batch 5 of a was written with other source offsets: .*old.*new"):
        check_no_other_left(batch, 1, [Author("a", 5, "new"), Author("a", 5, "old")], USERS, table_name="db.t")


@pytest.mark.parametrize(
    "options",
    [{"merge-engine": "first-row"}, {"sequence.field": "n"}, {"ignore-delete": "true"}],
)
def test_a_table_that_is_merged_at_write_has_no_eventual_log(options: dict[str, str]) -> None:
    schema = schema_with(EVENTUAL | options)
    with pytest.raises(
        UnsupportedError, match=r"table db.t has log.consistency=eventual, .* use log.consistency=trans"
    ):
        check_loggable(schema, table_name="db.t")


def test_statements_are_refused_with_the_reason() -> None:
    with pytest.raises(
        UnsupportedError, match=r"DELETE is not possible in table db.t, which has log.consistency=event"
    ):
        check_transactional(schema_with(EVENTUAL), "DELETE", table_name="db.t")
    check_transactional(schema_with({"bucket": "2", "log.system": "kafka"}), "DELETE", table_name="db.t")


def test_without_control_records_each_deleted_offset_was_a_record() -> None:
    positions = [LogPosition(offset=5, records=5)]
    assert held_nothing(positions, 5, 6)
    assert not held_nothing(positions, 5, 6, has_control_records=False)
    assert held_nothing(positions, 5, 5, has_control_records=False)
    assert not held_nothing([*positions, LogPosition(offset=8, records=8)], 5, 8, has_control_records=False)


def test_records_without_a_snapshot_that_were_deleted_are_no_loss_where_the_batch_runs_again() -> None:
    found = BucketCheck(bucket=0, offset=5, log_start=9, high_watermark=9)
    assert found.problem is not None
    eventual = BucketCheck(bucket=0, offset=5, log_start=9, high_watermark=9, decides=False)
    assert eventual.problem is None

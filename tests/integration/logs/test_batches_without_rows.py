"""Batches without rows that wait for their snapshot: only the mark of their writer says what they were made from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.catalog.logs.log_verbs import waiting
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.metadata.snapshots import Snapshot, parse_users
from lakelog.protocol.state.state import Batch
from lakelog.protocol.state.writer_marks import WriterMark, WriterMarks
from lakelog.protocol.writing.interval import ROWLESS_BYTES_MAX
from tests.support.logs.local_writer import LocalWriter, log_target
from tests.support.logs.log_records import await_committed
from tests.support.streams.planned_reader import rows_of
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration

NO_ROWS = pa.table({name: [] for name in SCHEMA.names}, schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str) -> Table:
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)
    return catalog.create_table("db.t", schema=SCHEMA, options={"bucket": "2", "log.system": "kafka"})


def log(writer: LocalWriter, identifier: int, rows: pa.Table = NO_ROWS) -> None:
    """Log a batch that was made from a source of its own."""
    writer.lineage = {"sources": [source(writer.user, identifier)]}
    writer.log(identifier, rows)


def source(user: str, identifier: int) -> dict[str, object]:
    return {"kind": "unknown", "name": f"source of {user} {identifier}"}


def recorded(table: Table) -> list[tuple[str, int]]:
    """The batches whose sources snapshots name, the oldest snapshot first; each has the sources that it was given."""
    found = []
    for snapshot in table.snapshots():
        for one in json.loads(snapshot.properties.get("lakelog.lineage", '{"batches": []}'))["batches"]:
            if one.get("sources"):
                assert one["sources"] == [source(one["user"], one["identifier"])]
                found.append((one["user"], one["identifier"]))
    return found


def newest(table: Table) -> Snapshot:
    found = table.snapshot()
    assert found is not None
    return found


def of(user: str, identifiers: Sequence[int]) -> list[tuple[str, int]]:
    return [(user, identifier) for identifier in identifiers]


def test_one_snapshot_records_what_waiting_batches_without_rows_were_made_from(table: Table) -> None:
    writer = LocalWriter(table, "a")
    log(writer, 0, rows_of(0))
    log(writer, 1)
    log(writer, 2)
    assert list(table.snapshots()) == []

    writer.take_in()

    assert sorted(recorded(table)) == of("a", [0, 1, 2])
    (snapshot,) = table.snapshots()
    assert parse_users(snapshot.properties)["a"].identifier == 2


def test_the_run_after_a_kill_finds_them_in_the_mark_and_takes_them_in_once(table: Table) -> None:
    log(killed := LocalWriter(table, "a"), 0)
    log(killed, 1, rows_of(1))
    log(killed, 2)
    log(again := LocalWriter(table, "a"), 3)
    log(again, 4, rows_of(4))

    again.take_in()
    log(again, 5)
    again.take_in()
    log(LocalWriter(table, "a"), 6)

    assert sorted(recorded(table)) == of("a", [0, 1, 2, 3, 4, 5])


def test_a_snapshot_of_another_writer_records_them_with_the_batches_that_it_takes_in(table: Table) -> None:
    log(killed := LocalWriter(table, "a"), 0, rows_of(0))
    log(killed, 1)
    log(other := LocalWriter(table, "b"), 0, rows_of(1))
    await_committed(table)

    other.take_in()

    assert sorted(recorded(table)) == [*of("a", [0, 1]), *of("b", [0])]
    assert parse_users(newest(table).properties)["a"].identifier == 1
    log(again := LocalWriter(table, "a"), 2)
    again.take_in()
    assert sorted(recorded(table)) == [*of("a", [0, 1, 2]), *of("b", [0])]


def test_settling_takes_in_a_writer_that_has_nothing_else(table: Table) -> None:
    log(LocalWriter(table, "a"), 0)
    log(LocalWriter(table, "b"), 0, rows_of(0))
    assert waiting(table) == "batch 0 of 'a', batch 0 of 'b'"

    table.log_store.settle()

    assert waiting(table) == ""
    assert sorted(recorded(table)) == [*of("a", [0]), *of("b", [0])]
    count = len(list(table.snapshots()))
    table.log_store.settle()
    assert len(list(table.snapshots())) == count
    table.write(rows_of(1))
    assert len(list(table.snapshots())) == count + 1, "a statement has nothing to take in"


def test_a_new_identity_takes_them_in_first(table: Table) -> None:
    log(LocalWriter(table, "a"), 0)

    table.upkeep.new_identity()

    assert recorded(table) == of("a", [0])


def test_their_lineage_makes_the_snapshot_before_the_mark_gets_large(table: Table) -> None:
    writer = LocalWriter(table, "a")
    writer.lineage = {"sources": ["x" * (ROWLESS_BYTES_MAX // 2)]}
    writer.log(0, NO_ROWS)
    assert not writer.by_interval.is_due()
    writer.log(1, NO_ROWS)
    assert writer.by_interval.is_due()


def test_one_with_other_source_offsets_is_refused(table: Table) -> None:
    log(LocalWriter(table, "a"), 0)
    log(LocalWriter(table, "a"), 1)
    log(LocalWriter(table, "a"), 1)  # again, as after a kill behind its mark
    with pytest.raises(InvalidRequestError, match=r"batch 0 of a is too old"):
        log(LocalWriter(table, "a"), 0)


def test_their_latest_watermark_is_that_of_the_snapshot(table: Table) -> None:
    batch = Batch(user="a", identifier=0, source_digest=None, lineage={}, watermark_millis=17)
    target = log_target(table)
    mark = WriterMark(
        table_uuid=table.store.uuid,
        topic_id=target.topic_id,
        user="a",
        identifier=0,
        digest=None,
        ends={},
        rowless=(batch,),
        unreported=(0,),
    )
    marks = WriterMarks(table.store, target.topic_id)
    marks.put(mark)
    assert marks.find("a") == mark

    table.log_store.settle()

    assert [one.watermark for one in table.snapshots()] == [17]

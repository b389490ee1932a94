"""Streams over the generations of a log: what ran starts again, and goes on exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import ConflictError, CorruptDataError, LakelogError, NotFoundError
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.filestore.write.write import write_rows
from lakelog.logstore.kafka.clients.topic import delete_topic
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.life.log_breaks import record_break
from lakelog.protocol.state.change_tracking import UntrackedChangesError
from lakelog.spark.tables import log_target
from lakelog.streams.reading.admission import Limits
from lakelog.streams.reading.offsets import LogOffset
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import log_of_table
from tests.support.streams.planned_reader import Reader, expected, rows_of, write
from tests.support.tables.foreign_engine import foreign_snapshot
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Catalog:
    return Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)


@pytest.fixture
def plain(catalog: Catalog) -> Table:
    return catalog.create_table("db.t", schema=SCHEMA, options={"bucket": "2", "bucket-key": "id"})


@pytest.fixture
def logged(catalog: Catalog) -> Table:
    options = {"bucket": "2", "log.system": "kafka"}
    return catalog.create_table("db.t", schema=SCHEMA, options=options)


def test_a_stream_of_files_goes_on_in_the_log_that_its_table_got(plain: Table) -> None:
    plain.write(rows_of(0))
    reader = Reader(plain)
    assert reader.read() == expected(0)
    plain.write(rows_of(1))
    changed = plain.log_store.add()
    write(changed, 2)
    with pytest.raises(ConflictError, match=r"has got a log since it was opened.* start the stream again"):
        reader.read()

    reader.start()

    assert reader.read() == expected(0, 1, 2)
    assert isinstance(reader.offset, LogOffset)
    write(changed, 3)
    reader.start()
    assert reader.read() == expected(0, 1, 2, 3)


def test_a_stream_that_had_followed_every_snapshot_begins_the_log_at_its_beginning(plain: Table) -> None:
    plain.write(rows_of(0))
    reader = Reader(plain)
    reader.read()
    changed = plain.log_store.add()
    write(changed, 1)
    reader.start()
    assert reader.read() == expected(0, 1)


@pytest.mark.parametrize("keep_topic", [True, False])
def test_a_stream_at_the_end_of_a_log_goes_on_in_the_next_one(logged: Table, keep_topic: bool) -> None:
    write(logged, 0)
    reader = Reader(logged)
    reader.read()
    write(logged, 1)
    assert reader.read() == expected(0, 1)
    renewed = logged.log_store.renew(keep_topic=keep_topic, force=True)
    write(renewed, 2)
    with pytest.raises(ConflictError, match=r"ended at snapshot 3.* Start it again"):
        reader.read()

    reader.start()

    assert reader.read() == expected(0, 1, 2)
    delete_topics(logged)


def test_a_stream_reads_an_older_log_to_its_end_and_the_next_one_behind_it(logged: Table) -> None:
    write(logged, 0)
    reader = Reader(logged)
    reader.read()
    for batch in (1, 2):
        write(logged, batch)
    renewed = logged.log_store.renew(keep_topic=True, force=True)
    write(renewed, 3)
    again = renewed.log_store.renew(keep_topic=True, force=True)
    write(again, 4)

    reader.start()

    assert reader.read(Limits(rows=3)) == expected(0, 1, 2, 3, 4)
    delete_topics(logged, renewed)


def test_a_stream_goes_on_in_the_files_of_a_deleted_log_from_the_snapshot_it_had_reached(logged: Table) -> None:
    write(logged, 0)
    reader = Reader(logged)
    reader.read()
    write(logged, 1)
    assert reader.read() == expected(0, 1)
    write(logged, 2)
    renewed = logged.log_store.renew(force=True)
    write(renewed, 3)

    reader.start()

    assert reader.read() == expected(0, 1, 2, 3)
    assert isinstance(reader.offset, LogOffset)


def test_a_stream_goes_on_in_the_files_where_the_topic_was_lost(logged: Table) -> None:
    write(logged, 0)
    reader = Reader(logged)
    reader.read()
    write(logged, 1)
    delete_topic(kafka_topic(log_of_table(logged)))
    renewed = open_table(logged.path).log_store.renew(force=True)
    write(renewed, 2)

    reader.start()

    assert reader.read() == expected(0, 1, 2)


def test_a_stream_whose_place_in_a_deleted_log_no_snapshot_has_is_refused_with_the_numbers(logged: Table) -> None:
    write(logged, 0)
    reader = Reader(logged)
    reader.read()
    write(logged, 1)
    reader.read()
    for batch in (2, 3):
        write(logged, batch)
    renewed = logged.log_store.renew(force=True)
    for number in renewed.store.snapshots.ids():
        if number < 4:
            renewed.store.file_io.delete(renewed.store.paths.snapshot(number))

    reader.start()

    with pytest.raises(
        NotFoundError, match=r"ended at snapshot 5, does not exist.*bucket 0: \d+ of \d+.* new checkpoint"
    ):
        reader.read()


def test_a_stream_follows_the_files_once_the_log_is_removed(logged: Table) -> None:
    write(logged, 0)
    reader = Reader(logged)
    reader.read()
    write(logged, 1)
    removed = logged.log_store.remove(keep_topic=True, force=True)
    removed.write(rows_of(2))

    reader.start()

    assert reader.read() == expected(0, 1, 2)
    again = removed.log_store.add()
    write(again, 3)
    reader.start()
    assert reader.read() == expected(0, 1, 2, 3)
    delete_topics(logged)


def test_a_checkpoint_of_an_unknown_topic_is_refused(logged: Table) -> None:
    write(logged, 0)
    reader = Reader(logged)
    reader.offset = LogOffset(topic_id="AAAA", offsets={0: 1, 1: 1}, counts={}, consumed=1)
    with pytest.raises(CorruptDataError, match="the checkpoint has read topic AAAA of table"):
        reader.read()


@pytest.mark.parametrize("cause", ["untracked", "break"])
def test_a_stream_does_at_untracked_changes_as_it_is_asked(logged: Table, cause: str) -> None:
    write(logged, 0)
    strict, lenient = Reader(logged), Reader(logged, **{"log.on-untracked": "skip"})
    for reader in (strict, lenient):
        reader.read()
    if cause == "break":
        foreign_rows(logged)
        strict.start()
        with pytest.raises(LakelogError, match=r"unless log\.on-untracked is skip"):
            strict.read()
        assert lenient.read() == expected(0)
        target = log_target(logged)
        assert target is not None
        record_break(logged.store, target)
    else:
        untracked = open_table(logged.path)
        writer = LocalWriter(untracked, "job", is_tracked=False)
        writer.write(1, rows_of(1), None)
    write(logged, 2)

    for reader in (strict, lenient):
        reader.start()

    assert lenient.read() == expected(0, 2)
    with pytest.raises(UntrackedChangesError, match="the log of table"):
        strict.read()
    late = Reader(logged)
    assert late.read() == expected(0, 1, 2)


def foreign_rows(table: Table) -> None:
    files = open_table(table.path).store
    live = files.live_files.of(files.snapshots.latest())
    foreign_snapshot(
        files, CommitKind.APPEND, entries=write_rows(files, rows_of(1), first_sequence=live.next_sequence).entries
    )


def delete_topics(*tables: Table) -> None:
    for table in tables:
        delete_topic(kafka_topic(log_of_table(table)))

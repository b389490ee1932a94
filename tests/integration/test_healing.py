"""Streams go on in the files where Kafka does not hold what they have to read, and return to the log. Exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import UnsupportedError
from lakelog.logstore.errors import LogTruncatedError
from lakelog.spark.source.admission import Limits
from lakelog.spark.source.offsets import FollowOffset, LogOffset
from tests.support.log_records import lose_records
from tests.support.planned_reader import Reader, expected, write
from tests.support.small_tables import SCHEMA

pytestmark = pytest.mark.integration


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Catalog:
    return Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table("db.t", schema=SCHEMA, options={"bucket": "2", "log.system": "kafka"})


def lose(table: Table) -> None:
    for bucket in range(2):
        lose_records(table, bucket)


def test_a_stream_behind_deleted_records_reads_the_files_and_returns_to_the_log(table: Table) -> None:
    write(table, 0)
    reader = Reader(table)
    reader.read()
    write(table, 1)
    reader.read()
    for batch in (2, 3):
        write(table, batch)
    lose(table)
    write(table, 4)

    reader.start()

    assert reader.read(Limits(rows=3)) == expected(0, 1, 2, 3, 4)
    assert isinstance(reader.offset, LogOffset)
    write(table, 5)
    assert reader.read() == expected(0, 1, 2, 3, 4, 5)


def test_one_bucket_that_lost_its_records_is_enough(table: Table) -> None:
    write(table, 0)
    reader = Reader(table)
    reader.read()
    write(table, 1)
    lose_records(table, 1)

    reader.start()

    assert reader.read() == expected(0, 1)


def test_a_stream_that_has_read_everything_stays_in_the_log(table: Table) -> None:
    write(table, 0)
    reader = Reader(table)
    reader.read()
    write(table, 1)
    reader.read()
    lose(table)
    write(table, 2)

    reader.start()

    assert reader.read() == expected(0, 1, 2)
    assert not isinstance(reader.ends[-1], FollowOffset)


def test_a_batch_that_runs_again_reads_the_same_from_the_files(table: Table) -> None:
    write(table, 0)
    reader = Reader(table)
    reader.read()
    before = reader.offset
    write(table, 1)
    reader.read()
    planned = reader.offset
    lose(table)
    write(table, 2)

    again = Reader(table)
    again.offset = before
    again.start()

    assert again.read_batch(planned) == expected(1)


def test_a_stream_between_two_snapshots_is_refused_with_the_numbers(table: Table) -> None:
    write(table, 0)
    reader = Reader(table)
    reader.read()
    write(table, 1)
    reader.read()
    write(table, 2)
    assert isinstance(reader.offset, LogOffset)
    for number in (1, 2):
        table._files.file_io.delete(table._files.paths.snapshot(number))
    lose(table)

    reader.start()

    with pytest.raises(
        LogTruncatedError, match=r"bucket 0: offset \d+, the log begins at \d+.* new checkpoint location"
    ):
        reader.read()


def test_old_values_that_the_files_do_not_have_are_not_made_up(catalog: Catalog) -> None:
    options = {"bucket": "2", "log.system": "kafka", "log.changelog-mode": "all"}
    table = catalog.create_table("db.u", schema=SCHEMA, primary_keys=["id"], options=options)
    write(table, 0)
    reader = Reader(table)
    reader.read()
    write(table, 1)
    lose(table)

    reader.start()

    with pytest.raises(UnsupportedError, match=r"held the old values of updates, and the files.* do not"):
        reader.read()

"""A stream of a table with a log that starts from a tag: its rows, then the log from the tag's offsets."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import NotFoundError
from lakelog.streams.reading.admission import Limits
from lakelog.streams.reading.offsets import LogOffset, SnapshotOffset
from tests.support.logs.log_records import lose_records
from tests.support.streams.planned_reader import Reader, expected, write
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Catalog:
    return Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Three batches, and a tag of the first."""
    options = {"bucket": "2", "log.system": "kafka", "write-only": "true"}
    made = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    write(made, 0)
    made.tags.create("t")
    write(made, 1)
    made.delete("id < 2")
    return made


AFTER = expected(0, 1) - Counter({(0, 0): 1, (1, 0): 1})


def live(reader: Reader) -> Counter[tuple[int, int]]:
    return Counter({row: count for row, count in reader.rows.items() if count})


@pytest.mark.parametrize("rows", [None, 1])
def test_a_stream_reads_the_rows_of_the_tag_then_the_log_behind_its_offsets(table: Table, rows: int | None) -> None:
    reader = Reader(table, tag="t")
    limits = Limits(rows=rows)
    for _ in range(20):
        reader.read(limits, batches=1)
        reader.start()  # killed, and started again

    assert live(reader) == AFTER
    assert isinstance(reader.ends[0], SnapshotOffset)
    assert reader.ends[0].tag == "t"
    assert isinstance(reader.offset, LogOffset)
    write(table, 2)
    assert live(reader) == AFTER
    reader.read(batches=20)
    assert live(reader) == AFTER + expected(2)
    assert all(count == 1 for count in reader.changes.values()), "each change once"


def test_the_log_reaches_back_behind_expired_snapshots(table: Table) -> None:
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1)
    reader = Reader(table, tag="t")
    reader.read()

    assert live(reader) == AFTER
    assert isinstance(reader.offset, LogOffset)


def test_without_log_and_snapshots_the_difference_is_read_when_it_may(table: Table) -> None:
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1)
    for bucket in range(2):
        lose_records(table, bucket)

    with pytest.raises(NotFoundError, match=r"neither its log nor its files have the changes.*failOnDataLoss=false"):
        Reader(table, tag="t").read()
    reader = Reader(table, tag="t", failOnDataLoss="false")
    for _ in range(5):
        reader.read(batches=1)
        reader.start()

    assert live(reader) == AFTER
    write(table, 2)
    reader.read()
    assert live(reader) == AFTER + expected(2)
    assert all(count == 1 for count in reader.changes.values())

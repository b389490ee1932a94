"""A copy with an identity of its own knows that its log begins later than its snapshots."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.metadata.snapshots.users import carried_properties
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.state.log_generations import EndedGeneration, ended_generations
from tests.support.logs.log_records import log_of_table
from tests.support.streams.planned_reader import Change, Reader, expected, write
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration

OPTIONS = {"bucket": "2", "log.system": "kafka"}


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str) -> Table:
    """A table with the batches 0 and 1."""
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)
    made = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=OPTIONS)
    write(made, 0)
    write(made, 1)
    return made


def copy_of(table: Table, folder: Path) -> Table:
    """A copy with an identity, in which batch 2 is."""
    copied = open_table(shutil.copytree(table.path, folder)).upkeep.new_identity()
    write(copied, 2)
    return open_table(copied.path)


def read(table: Table, **options: str) -> Change:
    reader = Reader(table, **options)
    for _ in range(4):  # the files of the older log, then the log
        reader.read()
    return reader.rows


def ended(table: Table) -> list[EndedGeneration]:
    store = table.store
    properties = carried_properties(store.snapshots.latest(), store.snapshots).properties
    return ended_generations(properties, where="the newest")


def test_the_log_of_a_copy_is_verified_from_its_beginning_on(table: Table, tmp_path: Path) -> None:
    copy = copy_of(table, tmp_path / "copy")

    verified = copy.log_store.verify()

    assert verified.is_equal
    assert verified.from_snapshot == 3
    assert verified.change_count == 4
    with pytest.raises(InvalidRequestError, match="has its log since snapshot 3"):
        copy.log_store.verify(from_snapshot=1)


@pytest.mark.parametrize(
    ("options", "batches"),
    [
        ({"log.scan": "from-snapshot", "snapshot_id": "2"}, (1, 2)),
        ({"log.scan": "from-snapshot", "snapshot_id": "1"}, (0, 1, 2)),
        ({}, (0, 1, 2)),
    ],
    ids=["behind the first", "from the first", "full"],
)
def test_a_stream_from_an_older_snapshot_reads_the_files_then_the_log_of_the_copy(
    table: Table, tmp_path: Path, options: dict[str, str], batches: tuple[int, ...]
) -> None:
    copy = copy_of(table, tmp_path / "copy")
    write(table, 2)  # into the log of the original, which the copy does not read

    assert read(copy, **options) == expected(*batches)


def test_each_identity_is_a_generation(table: Table, tmp_path: Path) -> None:
    copy = copy_of(table, tmp_path / "copy")
    topics = [log_of_table(table).topic_id, log_of_table(copy).topic_id]

    again = copy_of(copy, tmp_path / "again")

    assert [one.topic_id for one in ended(again)] == topics
    assert [one.is_lost for one in ended(again)] == [True, True]
    assert [one.snapshot_id for one in ended(again)] == [3, 5]
    assert again.log_store.verify().is_equal


@pytest.mark.parametrize(("drop", "options"), [("drop_ended", {}), ("renew", {"force": True})])
def test_the_log_of_the_original_stays_whatever_becomes_of_the_copy(
    table: Table, tmp_path: Path, drop: str, options: dict[str, bool]
) -> None:
    copy = copy_of(table, tmp_path / "copy")

    getattr(copy.log_store, drop)(**options)

    log_of_table(table).check_topic()
    assert kafka_topic(log_of_table(copy)).name != kafka_topic(log_of_table(table)).name
    write(table, 2)
    assert open_table(table.path).log_store.verify().is_equal

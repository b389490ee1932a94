"""A table whose folder is older than its log: restored from a backup, or robbed of files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import CorruptDataError
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.verbs import expire_snapshots
from lakelog.logstore.kafka.records.consumer import close_idle_consumers
from lakelog.protocol.state import header_files
from lakelog.protocol.state.header import LostFilesError
from lakelog.protocol.state.ports import BucketTail
from lakelog.protocol.state.state import LogPosition
from lakelog.protocol.state.steps import Step
from lakelog.protocol.stores.task_stores import TaskLog
from tests.support.logs.local_writer import LocalWriter

pytestmark = pytest.mark.integration

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int32())])
KEEP_NEWEST = Retention(count_min=1, count_max=1, age_millis=0, limit=100)
WAY_OUT = r"older copy.*No snapshot takes it in.*lakelog table new-identity"


class InjectedCrash(Exception):
    """The process dies here."""


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str) -> Iterator[Table]:
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    options = {"bucket": "1", "log.system": "kafka", "log.changelog-mode": "all"}
    yield catalog.create_table("db.t", schema=COLUMNS, primary_keys=["id"], options=options)
    close_idle_consumers()


def write(writer: LocalWriter, identifier: int, *ids: int) -> None:
    rows = pa.table({"id": list(ids), "v": [identifier] * len(ids)}, schema=COLUMNS)
    writer.write(identifier, rows, pa.array([0] * len(ids), pa.int8()))


def die_before_the_snapshot(step: Step, _user: str, _identifier: int, _bucket: int | None) -> None:
    if step is Step.BEFORE_SNAPSHOT:
        raise InjectedCrash(step)


def ids(table: Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def write_restore(table: Table, *batches: tuple[int, ...]) -> Table:
    """Write a batch, take a backup, write more, and restore the backup; gives the table as it is opened then."""
    writer = LocalWriter(table, "a")
    write(writer, 0, 1)
    backup = Path(table.path).parent / "backup"
    shutil.copytree(table.path, backup)
    for number, batch in enumerate(batches, start=1):
        write(writer, number, *batch)
    shutil.rmtree(table.path)
    backup.rename(table.path)
    return Catalog(table.warehouse).load_table("db.t")


@pytest.mark.parametrize("user", ["a", "b"])
def test_a_restored_table_takes_in_no_batch_whose_files_are_not_there(table: Table, user: str) -> None:
    restored = write_restore(table, (2,))

    with pytest.raises(LostFilesError, match=WAY_OUT):
        write(LocalWriter(restored, user), 2, 3)

    assert ids(restored) == [1]


def test_a_restored_table_that_lacks_several_batches_is_refused_with_the_same_way_out(table: Table) -> None:
    restored = write_restore(table, (2,), (3,))

    with pytest.raises(CorruptDataError, match=WAY_OUT):
        write(LocalWriter(restored, "b"), 0, 4)

    assert ids(restored) == [1]


def test_a_restored_table_goes_on_with_a_log_of_its_own(table: Table) -> None:
    renewed = write_restore(table, (2,)).upkeep.new_identity()

    write(LocalWriter(renewed, "a"), 2, 3)  # the stream goes on where it was

    assert ids(renewed) == [1, 3]


def test_a_batch_whose_header_file_was_deleted_is_refused_too(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(header_files, "RECORD_BYTES_MAX", 100)
    with suppress(InjectedCrash):
        write(LocalWriter(table, "a", observe=die_before_the_snapshot), 0, 1)
    for header in Path(table.path, "manifest").glob("header-*"):
        header.unlink()

    with pytest.raises(LostFilesError, match=r"/manifest/header-.*" + WAY_OUT):
        write(LocalWriter(table, "a"), 0, 1)


def test_files_that_others_have_taken_in_and_compacted_meanwhile_are_not_missed(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    with suppress(InjectedCrash):
        write(LocalWriter(table, "killed", observe=die_before_the_snapshot), 0, 1)
    read_tail = TaskLog.read_tail
    overtakers: list[LocalWriter] = []

    def read_and_be_overtaken(log: TaskLog, bucket: int, position: LogPosition) -> BucketTail:
        tail = read_tail(log, bucket, position)
        if overtakers:
            write(overtakers.pop(), 0, 2)
            table.store.compact(full=True)
            expire_snapshots(table.store, retention=KEEP_NEWEST)
        return tail

    monkeypatch.setattr(TaskLog, "read_tail", read_and_be_overtaken)
    overtakers.append(LocalWriter(table, "fast"))

    write(LocalWriter(table, "slow"), 0, 3)

    assert ids(table) == [1, 2, 3]

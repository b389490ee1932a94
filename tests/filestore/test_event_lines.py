"""What a table without Spark writes into the log: one line of INFO a commit, a compaction and an expiry."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from pathlib import Path

import pytest

from lakelog.common.errors import ConflictError, CorruptDataError, LakelogError
from lakelog.filestore.compact import buckets
from lakelog.filestore.expire.retention_rules import Retention
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots
from tests.support.tables.small_tables import UNSYNCED, make_table, rows_of


def events(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    """The lines of an event at INFO, with a number in place of every time and name that differs from run to run."""
    found = [one.getMessage() for one in caplog.records if one.levelno == logging.INFO]
    return [re.sub(r"(user|millis)=\S+", r"\1=*", line) for line in found if line.split(" ")[0] == event]


@pytest.fixture
def table(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> FileStoreTable:
    caplog.set_level(logging.DEBUG, logger="lakelog")
    return make_table(tmp_path, options={"write-only": "true"})


def test_a_commit_is_one_line(table: FileStoreTable, caplog: pytest.LogCaptureFixture) -> None:
    table.write(rows_of(0))
    assert events(caplog, "commit") == [
        "commit table=t snapshot=1 kind=APPEND rows=6 files_added=2 files_deleted=0 user=* "
        "identifier=9223372036854775807 millis=*"
    ]
    assert {one.name for one in caplog.records} == {"lakelog.filestore"}


def test_a_compaction_is_a_line_beside_its_commit(table: FileStoreTable, caplog: pytest.LogCaptureFixture) -> None:
    for batch in range(3):
        table.write(rows_of(batch))
    caplog.clear()
    table.compact(full=True)
    [commit], [compact] = events(caplog, "commit"), events(caplog, "compact")
    assert "snapshot=4 kind=COMPACT" in commit
    assert re.sub(r"bytes_(\w+)=\d+", r"bytes_\1=*", compact) == (
        "compact table=t snapshot=4 buckets=2 rows=12 files_before=6 files_after=2 bytes_before=* bytes_after=* "
        "millis=*"
    )


def test_an_expiry_is_a_line_where_it_deleted_something(
    table: FileStoreTable, caplog: pytest.LogCaptureFixture
) -> None:
    for batch in range(3):
        table.write(rows_of(batch))
    keep_one = replace(Retention.of(table), count_min=1, count_max=1)
    expire_snapshots(table, retention=keep_one)
    expire_snapshots(table, retention=keep_one)
    assert events(caplog, "expire") == [
        "expire table=t snapshots=2 newest_expired=2 changelogs=0 consumers=0 data_files=0 metadata_files=4 millis=*"
    ]


@pytest.mark.parametrize(
    ("error", "level"),
    [(ConflictError("another was first"), logging.DEBUG), (CorruptDataError("not readable"), logging.WARNING)],
)
def test_a_compaction_that_another_one_made_needless_is_no_warning(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    error: LakelogError,
    level: int,
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise error

    caplog.set_level(logging.DEBUG, logger="lakelog")
    monkeypatch.setattr(buckets, "compact_buckets", refused)
    eager = make_table(tmp_path, UNSYNCED, options={"num-sorted-run.compaction-trigger": "2"})
    eager.write(rows_of(0))
    eager.write(rows_of(0))
    [record] = [one for one in caplog.records if "did not happen" in one.getMessage()]
    assert record.levelno == level
    assert str(error) in record.getMessage()

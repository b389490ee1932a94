"""Rows of other engines in a table with a log: batch reads show them with a warning, what goes by the log refuses."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import UnsupportedError
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.protocol.state.state import LogState
from lakelog.protocol.stores.table_states import read_state
from tests.support.tables.foreign_engine import foreign_snapshot

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])
OURS = {"lakelog.users": "{}"}


def logged_table(folder: Path, *properties: dict[str, str], kind: CommitKind = CommitKind.APPEND) -> FileStoreTable:
    """A table with a log, a snapshot of one row each with these properties; the last one may be of another kind."""
    built = build_schema(SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    table = FileStoreTable.create(folder / "t", built, LocalFileIO(sync_data=False))
    for number, given in enumerate(properties, 1):
        table.write(pa.table({"id": [number]}, schema=SCHEMA))
        made = table.snapshots.get(number)
        last = kind if number == len(properties) else made.commit_kind
        changed = replace(made, properties=given, commit_user="flink", commit_kind=last)
        (Path(table.path) / f"snapshot/snapshot-{number}").write_text(changed.to_json())
    opened = FileStoreTable.open(table.path, LocalFileIO(sync_data=False))
    return replace(opened, schema=replace(opened.schema, options={**opened.schema.options, "log.system": "kafka"}))


def test_a_batch_read_warns_in_the_words_in_which_streams_refuse(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = logged_table(tmp_path, OURS, {})
    with caplog.at_level(logging.WARNING):
        assert table.to_arrow().num_rows == 2
    (warning,) = caplog.messages
    assert "snapshot 2 of" in warning
    assert "is an APPEND by 'flink', not by lakelog: its rows are not in the log" in warning
    with pytest.raises(UnsupportedError) as refused:
        read_state(table, table.snapshots.latest(), topic_id="topic")
    assert str(refused.value) == warning


def test_a_batch_read_does_not_warn_where_log_and_files_are_equal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = logged_table(tmp_path / "foreign", OURS, {})
    compacted = logged_table(tmp_path / "compacted", OURS, {}, kind=CommitKind.COMPACT)
    unlogged = FileStoreTable.open(table.path, LocalFileIO(sync_data=False))
    with caplog.at_level(logging.WARNING):
        assert table.to_arrow(snapshot_id=1).num_rows == 1
        compacted.to_arrow()
        unlogged.to_arrow()
    assert caplog.messages == []


def test_a_snapshot_of_others_without_a_change_is_no_foreign_row(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As an idle streaming job of Flink makes it at each checkpoint."""
    table = logged_table(tmp_path, OURS | {"lakelog.log": LogState(topic_id="topic").to_json()})
    foreign_snapshot(table, CommitKind.APPEND)
    with caplog.at_level(logging.WARNING):
        assert table.to_arrow().num_rows == 1
    assert caplog.messages == []
    assert read_state(table, table.snapshots.latest(), topic_id="topic").snapshot_id == 2

    hidden = foreign_snapshot(table, CommitKind.APPEND, index_manifest="index-manifest-1")
    with pytest.raises(UnsupportedError, match="is an APPEND by 'flink', not by lakelog"):
        read_state(table, hidden, topic_id="topic")

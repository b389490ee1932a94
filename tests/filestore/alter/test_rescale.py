"""Another number of buckets for a table: the rows stay, whoever writes meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakelog.common.errors import ConflictError, CorruptDataError, InvalidRequestError
from lakelog.filestore.alter import rescale
from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.read.scan import DataSplit
from lakelog.filestore.read.split_rows import read_splits
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes
from lakelog.filestore.verbs import rescale as rescale_files
from tests.support.examples import pairs_in_full
from tests.support.files.faulty_file_io import FaultyFileIO, InjectedCrash
from tests.support.tables.small_tables import (
    SCHEMA,
    UNSYNCED,
    content,
    content_after,
    in_new_process,
    make_table,
    rows_of,
)

UNTOLD = {"changelog-producer": "lookup", "write-only": "true"}
TRIGGERS = {"num-sorted-run.compaction-trigger": "2"}


def filled(folder: Path, **options: str) -> FileStoreTable:
    table = make_table(folder, options={**TRIGGERS, **options})
    for batch in range(4):
        table.write(rows_of(batch))
    return table


def bucket_counts(table: FileStoreTable) -> set[int]:
    return {entry.total_buckets for entry in table.live_files.of(table.snapshots.latest()).entries()}


@pytest.mark.parametrize("bucket_count", [1, 3, 4])
def test_rows_move_and_old_snapshots_stay(tmp_path: Path, bucket_count: int) -> None:
    table = filled(tmp_path)
    before = table.snapshots.latest_id()
    rescaled = rescale_files(table, bucket_count)
    assert content(rescaled) == content(in_new_process(table.path)) == content_after(4)
    assert bucket_counts(rescaled) == {bucket_count}
    assert rescaled.bucket_count == in_new_process(table.path).bucket_count == bucket_count
    rescaled.write(rows_of(4))
    assert content(rescaled) == content_after(5)
    assert rescaled.to_arrow(where="id = 7")["batch"].to_pylist() == [2]
    old = rescaled.to_arrow(snapshot_id=before)
    assert dict(zip(old["id"].to_pylist(), old["batch"].to_pylist(), strict=True)) == content_after(4)
    assert rescale_files(rescaled, bucket_count).snapshots.latest() == rescaled.snapshots.latest()


def test_who_opened_the_table_before_is_refused(tmp_path: Path) -> None:
    table = filled(tmp_path)
    rescale_files(table, 3)
    with pytest.raises(ConflictError, match=r"were written for 2 buckets, the table has 3: open the table again"):
        replace(table).write(rows_of(4))
    assert content(in_new_process(table.path)) == content_after(4)


@pytest.mark.parametrize("options", [{}, UNTOLD], ids=str)
def test_rows_that_come_meanwhile_move_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    table = filled(tmp_path, **options)
    rewrite = rescale._rewritten
    writes = iter([4, 5])

    def interrupted(*given: object) -> object:
        found = rewrite(*given)  # type: ignore[arg-type]  # as it was called
        for batch in writes:
            replace(table).write(rows_of(batch))
            break
        return found

    monkeypatch.setattr(rescale, "_rewritten", interrupted)
    rescaled = rescale_files(table, 3, clock=CommitClock(sleep=lambda seconds: None))
    assert next(writes, None) is None
    assert content(rescaled) == content_after(6)
    assert bucket_counts(rescaled) == {3}
    assert not options or folded(rescaled) == content_after(6)
    named = {entry.file.file_name for entry in rescaled.live_files.of(rescaled.snapshots.latest()).entries()}
    there = {path.name for path in Path(table.path, "bucket-2").iterdir()}
    assert there <= named  # what the lost races had written is gone


@pytest.mark.parametrize(("options", "step"), [({}, 3), (UNTOLD, 11)], ids=str)
def test_a_rescale_that_is_cut_off_changes_no_row_and_goes_on(
    tmp_path: Path, options: dict[str, str], step: int
) -> None:
    table = filled(tmp_path / "whole", **options)
    counted = FaultyFileIO(UNSYNCED)
    rescale_files(in_new_process(table.path, counted), 3)
    for fails_at in range(1, len(counted.calls) + 1, step):
        table = filled(tmp_path / str(fails_at), **options)
        with pytest.raises(InjectedCrash):
            rescale_files(in_new_process(table.path, FaultyFileIO(UNSYNCED, fails_at=fails_at)), 3)
        assert content(in_new_process(table.path)) == content_after(4)
        again = rescale_files(in_new_process(table.path), 3)
        assert content(again) == content_after(4)
        assert bucket_counts(again) == {3}
        assert not options or folded(again) == content_after(4)


LOOKING_UP: list[dict[str, str]] = [
    {"changelog-producer": "lookup"},
    {"changelog-producer": "full-compaction"},
    {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "3"},
    {
        "changelog-producer": "full-compaction",
        "full-compaction.delta-commits": "9",
        "num-sorted-run.compaction-trigger": "9",
    },
    {"deletion-vectors.enabled": "true"},
    {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
    {"merge-engine": "first-row"},
    {"merge-engine": "first-row", "changelog-producer": "lookup"},
    {"merge-engine": "aggregation", "fields.batch.aggregate-function": "sum", "changelog-producer": "lookup"},
]


@pytest.mark.parametrize(("options", "write_only"), pairs_in_full(LOOKING_UP, ["false", "true"]), ids=str)
def test_rows_that_move_are_rows_of_before(tmp_path: Path, options: dict[str, str], write_only: str) -> None:
    """They are whole, in one run, told by no changelog, and found by later lookups."""
    given = {**options, "write-only": write_only, "write-buffer-size": "100 b"}
    table, still = (filled(tmp_path / name, **given) for name in ("moved", "still"))
    tells = options.get("changelog-producer") is not None
    rescaled = rescale_files(table, 3)
    still.compact(full=True)
    assert content(rescaled) == content(still)
    latest = rescaled.snapshots.latest()
    assert latest is not None
    assert (latest.operation_name, latest.changelog_manifest_list, latest.index_manifest) == ("RESCALE", None, None)
    files = [(entry.bucket, entry.file) for entry in rescaled.live_files.of(latest).entries()]
    assert sorted(bucket for bucket, _ in files) == [0, 1, 2]
    trigger = int(rescaled.options["num-sorted-run.compaction-trigger"])
    assert {file.level for _, file in files} == {trigger}  # there is one level more, with level 0
    assert {path.name for path in Path(table.path, "bucket-2").iterdir()} == {
        file.file_name for bucket, file in files if bucket == 2
    }
    assert not tells or folded(rescaled) == content(rescaled)
    for one in (rescaled, still):
        one.write(rows_of(1))
        one.compact(full=True)
    assert content(rescaled) == content(still)
    assert not tells or folded(rescaled) == content(rescaled)


def folded(table: FileStoreTable) -> dict[int, int]:
    """The rows that the told changes come to; each change must fit those before it."""
    state: dict[int, int] = {}
    for kind, key, batch in (tuple(row.values()) for rows in changes(table) for row in rows.to_pylist()):
        if kind in ("-U", "-D"):
            assert state.pop(key) == batch
        else:
            assert key not in state
            state[key] = batch
    return state


def test_what_cannot_move_is_refused(tmp_path: Path) -> None:
    table = filled(tmp_path)
    with pytest.raises(InvalidRequestError, match="cannot have 0 buckets; expected 1 or more"):
        rescale_files(table, 0)
    schema = replace(table.schema, options={**table.schema.options, "log.system": "kafka"})
    with pytest.raises(InvalidRequestError, match=r"has log\.system=kafka"):
        rescale_files(replace(table, schema=schema), 3)


ROWS = [(1, 1), (1, 1), (2, 2), (2, None)]


def counted(folder: Path) -> FileStoreTable:
    """A value-count table as one with a log has its files: equal rows of several commits, and deletes."""
    schema = build_schema(SCHEMA, primary_keys=[], options={"bucket": "1", "write-mode": "change-log"})
    plain = FileStoreTable.create(f"{folder}/t", schema, UNSYNCED)
    rows = pa.table([pa.array(column) for column in zip(*ROWS, strict=True)], names=SCHEMA.names).cast(
        plain.schema.arrow_schema
    )
    for _ in range(3):
        plain.write(rows)
    plain.write(rows.slice(2), kinds=pa.array([3, 3], pa.int8()))
    return replace(plain, schema=replace(plain.schema, options={**plain.options, "log.system": "kafka"}))


def test_equal_rows_of_several_commits_keep_their_counts_in_a_table_with_a_log(tmp_path: Path) -> None:
    table = counted(tmp_path)
    before = sorted(str(row) for row in table.to_arrow().to_pylist())
    moved = replace(table, schema=replace(table.schema, options={**table.options, "bucket": "3"}))
    assert rescale.move_rows(moved, clock=CommitClock()) is not None
    assert sorted(str(row) for row in moved.to_arrow().to_pylist()) == before
    assert len(before) == 3 * len(ROWS) - 2


@pytest.mark.parametrize("kind", ["keyed", "value count", "append-only"])
def test_a_rescale_that_would_change_a_row_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """One row fewer, and as many rows of which one is another."""
    makers = {"keyed": filled, "value count": counted, "append-only": appended}
    table = makers[kind](tmp_path)
    moved = replace(table, schema=replace(table.schema, options={**table.options, "bucket": "3"}))
    before, names = table.snapshots.latest_id(), data_files(table)

    def fewer(table: TableStore, splits: Iterable[DataSplit]) -> list[pa.RecordBatch]:
        return [batch.slice(1) for batch in read_splits(table, splits)]

    def other(table: TableStore, splits: Iterable[DataSplit]) -> list[pa.RecordBatch]:
        rows = pa.Table.from_batches(read_splits(table, splits))
        at = rows.schema.get_field_index("batch")
        changed: pa.Table = rows.set_column(at, rows.schema.field(at), pc.add(rows["batch"], pa.scalar(70, pa.int32())))
        return list(changed.to_batches())

    for broken, found in ((fewer, "rows before, [0-9]+ rows after"), (other, "before and after, with other values")):
        monkeypatch.setattr(rescale, "read_splits", broken)
        with pytest.raises(CorruptDataError, match=f"the rescale of table .* would change its rows .*{found}"):
            rescale.move_rows(moved, clock=CommitClock())
        assert (table.snapshots.latest_id(), data_files(table)) == (before, names)


def appended(folder: Path) -> FileStoreTable:
    schema = build_schema(SCHEMA, primary_keys=[], options={"bucket": "2", "bucket-key": "id"})
    table = FileStoreTable.create(f"{folder}/t", schema, UNSYNCED)
    table.write(rows_of(0))
    return table


def data_files(table: FileStoreTable) -> set[str]:
    return {path.name for path in Path(table.path).glob("bucket-*/*")}

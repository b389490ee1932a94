"""Tables merged at write: what new rows make of old ones, for the log and for the files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import ROW_KIND_TEXTS
from lakelog.filestore.merge.engines import row_merge
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.schema import SEQUENCE_NUMBER, VALUE_KIND
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.write.write import check_kinds_taken
from lakelog.logstore.options import LOGSTORE_OPTIONS
from lakelog.protocol.stores.logged_rows import BucketRows, ResolvedRows
from lakelog.protocol.stores.resolving import resolved
from tests.support.tables.small_tables import UNSYNCED

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("s", pa.int64()), pa.field("v", pa.int64())])
ENGINES = {
    "ignore-delete": {"ignore-delete": "true"},
    "sequence": {"sequence.field": "s"},
    "partial-update": {"merge-engine": "partial-update"},
    "sum": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "first-row": {"merge-engine": "first-row"},
}
Row = tuple[int, int | None, int | None]
Change = tuple[str, Row]


def make(folder: Path, engine: str) -> FileStoreTable:
    options = {"bucket": "1", "log.system": "kafka", **ENGINES[engine]}
    schema = build_schema(SCHEMA, primary_keys=["id"], options=options, also=LOGSTORE_OPTIONS)
    return FileStoreTable.create(folder / "t", schema, UNSYNCED)


def resolve(table: FileStoreTable, changes: Sequence[Change], old: Sequence[Change] = ()) -> ResolvedRows:
    merge = row_merge(table.schema)
    assert merge is not None
    part = BucketRows(bucket_id=BucketId(bytes(12), 0), rows=rows_of(changes), kinds=kinds_of(changes))
    numbers = pa.array(range(10, 10 + len(old)), pa.int64())
    before = rows_of(old).append_column(SEQUENCE_NUMBER, numbers).append_column(VALUE_KIND, kinds_of(old))
    return resolved(table, merge, part, before if old else None)


def rows_of(changes: Sequence[Change]) -> pa.Table:
    columns = zip(*(row for _, row in changes), strict=True) if changes else ([], [], [])
    return pa.table([pa.array(column, pa.int64()) for column in columns], schema=SCHEMA)


def kinds_of(changes: Sequence[Change]) -> pa.Array:
    return pa.array([ROW_KIND_TEXTS.index(kind) for kind, _ in changes], pa.int8())


def told(found: ResolvedRows) -> list[Change]:
    return with_kinds(found.changes, found.kinds)


def stored(found: ResolvedRows) -> list[Change]:
    return with_kinds(found.staying.rows, found.staying.kinds)


def with_kinds(rows: pa.Table, kinds: pa.Array) -> list[Change]:
    values = zip(*(column.to_pylist() for column in rows.columns), strict=True)
    return [(ROW_KIND_TEXTS[kind], row) for kind, row in zip(kinds.to_pylist(), values, strict=True)]


@pytest.mark.parametrize(
    ("engine", "old", "changes", "expected"),
    [
        ("sum", [], [("+I", (2, 1, 5)), ("+I", (1, 1, 5)), ("+I", (2, 2, 5))], [("+I", (1, 1, 5)), ("+I", (2, 2, 10))]),
        ("sum", [("+I", (1, 1, 5))], [("+I", (1, 2, 5))], [("-U", (1, 1, 5)), ("+U", (1, 2, 10))]),
        ("sum", [("+I", (1, 1, 5))], [("-D", (1, 2, 5))], [("-U", (1, 1, 5)), ("+U", (1, None, 0))]),
        ("partial-update", [("+I", (1, 1, 5))], [("+I", (1, None, 6))], [("-U", (1, 1, 5)), ("+U", (1, 1, 6))]),
        ("first-row", [], [("+I", (1, 1, 5)), ("+I", (1, 2, 6))], [("+I", (1, 1, 5))]),
        ("sequence", [("+I", (1, 1, 5))], [("+I", (1, 1, 6))], [("-U", (1, 1, 5)), ("+U", (1, 1, 6))]),
        ("sequence", [("+I", (1, 1, 5))], [("-D", (1, 2, None))], [("-D", (1, 1, 5))]),
        ("sequence", [("-D", (1, 2, None))], [("+I", (1, 3, 7))], [("+I", (1, 3, 7))]),
        ("ignore-delete", [("+I", (1, 1, 5))], [("-D", (1, 1, 5)), ("+I", (1, 2, 6))], None),
        # Rows that a statement has deleted, whose deletes are in the files still.
        ("sum", [("-D", (1, 1, 5))], [("+I", (1, 2, 7))], [("+I", (1, 2, 7))]),
        (
            "sum",
            [("-D", (1, 1, 5)), ("+I", (2, 1, 1))],
            [("+I", (1, 2, 7)), ("+I", (2, 2, 1))],
            [("+I", (1, 2, 7)), ("-U", (2, 1, 1)), ("+U", (2, 2, 2))],
        ),
        ("partial-update", [("-D", (1, 1, 5))], [("+I", (1, None, 6))], [("+I", (1, None, 6))]),
        ("first-row", [("-D", (1, 1, 5))], [("+I", (1, 2, 6))], [("+I", (1, 2, 6))]),
        ("ignore-delete", [("-D", (1, 1, 5))], [("+I", (1, 2, 6))], [("+I", (1, 2, 6))]),
    ],
)
def test_the_log_is_told_what_became_of_each_row(
    tmp_path: Path, engine: str, old: list[Change], changes: list[Change], expected: list[Change] | None
) -> None:
    found = resolve(make(tmp_path, engine), changes, old)
    assert told(found) == (expected or [("-U", (1, 1, 5)), ("+U", (1, 2, 6))])
    after = [("+I", row) for kind, row in told(found) if kind in ("+I", "+U")]
    assert [change for change in stored(found) if change[0] == "+I"] == after


@pytest.mark.parametrize(
    ("engine", "old", "change"),
    [
        ("sum", ("+I", (1, 1, 5)), ("+I", (1, 1, 0))),
        ("partial-update", ("+I", (1, 1, 5)), ("+I", (1, None, None))),
        ("first-row", ("+I", (1, 1, 5)), ("+I", (1, 2, 6))),
        ("sequence", ("+I", (1, 2, 5)), ("+I", (1, 1, 6))),
        ("sequence", ("+I", (1, 2, 5)), ("-D", (1, 1, 6))),
        ("sequence", ("-D", (1, 2, 5)), ("+I", (1, 1, 6))),
        ("ignore-delete", ("+I", (1, 1, 5)), ("-D", (1, 1, 5))),
    ],
)
def test_a_change_that_changes_nothing_is_in_neither_store(
    tmp_path: Path, engine: str, old: Change, change: Change
) -> None:
    found = resolve(make(tmp_path, engine), [change], [old])
    assert (told(found), stored(found)) == ([], [])


def test_a_delete_of_what_is_not_there_is_kept_for_later_rows_and_told_to_nobody(tmp_path: Path) -> None:
    found = resolve(make(tmp_path, "sequence"), [("-D", (1, 5, None))])
    assert told(found) == []
    assert stored(found) == [("-D", (1, 5, None))]


def test_rows_are_stored_by_key_with_the_places_of_the_last_rows_given(tmp_path: Path) -> None:
    changes: list[Change] = [("+I", (2, 1, 1)), ("+I", (1, 9, 1)), ("+I", (1, 1, 2)), ("-D", (3, 4, None))]
    found = resolve(make(tmp_path, "sequence"), changes, [("+I", (3, 1, 1))])
    assert stored(found) == [("+I", (1, 9, 1)), ("+I", (2, 1, 1)), ("-D", (3, 4, None))]
    assert found.staying.positions.tolist() == [2, 0, 3]
    assert found.staying.given_count == 4


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("first-row", "has merge-engine=first-row and takes no -D"),
        ("partial-update", "merge-engine=partial-update takes no -U and -D unless"),
        ("sum", None),
    ],
)
def test_deletes_that_a_merge_takes_back_from_no_row_are_refused_before_they_meet_one(
    tmp_path: Path, engine: str, message: str | None
) -> None:
    kinds = kinds_of([("+I", (1, 1, 1)), ("-D", (1, 1, 1))])
    table = make(tmp_path, engine)
    if message is None:
        check_kinds_taken(table, kinds)
        return
    with pytest.raises(InvalidRequestError, match=message):
        check_kinds_taken(table, kinds)


def test_files_are_those_of_a_table_that_keeps_the_last_row(tmp_path: Path) -> None:
    table = make(tmp_path, "sum")
    given = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    assert given.items() <= table.schema.options.items()
    text = (tmp_path / "t" / "schema" / "schema-0").read_text()
    assert '"merge-engine"' not in text
    assert '"lakelog.merged-at-write.merge-engine": "aggregation"' in text
    assert FileStoreTable.open(tmp_path / "t").schema == table.schema
    assert row_merge(table.stored.schema) is None

"""Changelog files: what compactions and writes tell of changes, and what it costs to find out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.common.errors import InvalidRequestError, LakelogError, NotFoundError
from lakelog.common.types import ROW_KIND_COLUMN, ROW_KIND_TEXTS
from lakelog.filestore.expire.retention_rules import Retention
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes as changes_of
from lakelog.filestore.verbs import expire_snapshots, rescale
from tests.support.examples import examples
from tests.support.files.counting_file_io import CountingFileIO
from tests.support.tables.paimon_tables import CASES

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("a", pa.int64()), pa.field("b", pa.string())])
FLINK_SCHEMA = pa.schema(
    [pa.field("id", pa.int32(), nullable=False), pa.field("name", pa.string()), pa.field("v", pa.int64())]
)
# What the statements of the fixtures changelog_lookup and changelog_full_compaction write, with their kinds.
FLINK_BATCHES = [
    [("+I", id, f"a{id}", id) for id in range(1, 11)],
    [("+I", id, f"b{id}", -id) for id in (2, 4, 6, 20, 21)],
    [("-D", 1, "a1", 1), ("-D", 20, "b20", -20)],
    [("+I", 1, "again", 1), ("+I", 4, "b4", -4), ("+I", 30, "new", 0)],
    [("+I", 10, "a10", 1_010)],
]
DELETE = 3


def make(
    folder: Path, options: Mapping[str, str], columns: pa.Schema = SCHEMA, file_io: LocalFileIO | None = None
) -> FileStoreTable:
    schema = build_schema(columns, primary_keys=["id"], options={"bucket": "1", **options})
    return FileStoreTable.create(folder / "t", schema, file_io or LocalFileIO(sync_data=False))


def told(table: FileStoreTable, after: int = 0) -> list[tuple[object, ...]]:
    """The changes behind a snapshot in their order, with their kinds."""
    rows = [row for batch in changes_of(table, after=after) for row in batch.to_pylist()]
    return [(row.pop(ROW_KIND_COLUMN), *row.values()) for row in rows]


def rows(*given: tuple[int, int | None, str | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], schema=SCHEMA)


def of_kinds(changes: list[tuple[str, int, str, int]]) -> tuple[pa.Table, pa.Array]:
    table = pa.Table.from_pylist(
        [dict(zip(FLINK_SCHEMA.names, row, strict=True)) for _, *row in changes], schema=FLINK_SCHEMA
    )
    return table, pa.array([ROW_KIND_TEXTS.index(kind) for kind, *_ in changes], pa.int8())


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_the_changes_are_those_of_flink_for_the_same_statements(tmp_path: Path, producer: str) -> None:
    name = f"changelog_{producer.replace('-', '_')}"
    table = make(tmp_path, {"changelog-producer": producer, "bucket": "2"}, FLINK_SCHEMA)
    folder = CASES / name / "expected" / name
    files = sorted(folder.glob("changelog-*.jsonl"), key=lambda path: int(path.stem.partition("-")[2]))
    by_flink = [[json.loads(line) for line in path.read_text().splitlines()] for path in files]
    by_flink = [changes for changes in by_flink if changes]
    assert len(by_flink) == len(FLINK_BATCHES)
    for changes, expected in zip(FLINK_BATCHES, by_flink, strict=True):
        before = table.snapshots.latest_id() or 0
        batch, kinds = of_kinds(changes)
        table.write(batch, kinds=kinds)
        assert sorted(told(table, before)) == sorted(tuple(row.values()) for row in expected)


def expired(folder: Path, **options: str) -> FileStoreTable:
    """A table of six snapshots, of which the last three are kept."""
    table = make(folder, {"write-only": "true"} | {key.replace("_", "-"): value for key, value in options.items()})
    for number in range(6):
        table.write(rows((number, number, "x")))
    expire_snapshots(table, retention=Retention(count_min=3, count_max=3, age_millis=0, limit=100))
    return table


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            {"after": 99},
            NotFoundError,
            "has no snapshot 99, which after names: its newest is snapshot 6; name 6 at most",
        ),
        ({"after": 3, "up_to": 7}, NotFoundError, "no snapshot 7, which up_to names: its newest is snapshot 6"),
        (
            {"after": 0},
            NotFoundError,
            r"snapshot 1 .* do not exist; those of snapshots 4 to 6 do: name after=3 or a higher one",
        ),
        ({"after": 2}, NotFoundError, r"snapshot 3 .* do not exist; those of snapshots 4 to 6 do"),
        ({"after": 1, "up_to": 2}, NotFoundError, r"snapshot 2 .* do not exist; those of snapshots 4 to 6 do"),
        ({"up_to": 2}, NotFoundError, r"snapshot 2 .* do not exist; those of snapshots 4 to 6 do"),
        ({"after": 5, "up_to": 4}, InvalidRequestError, "after snapshot 5 and up to snapshot 4: up_to is lower"),
        ({"after": -1}, InvalidRequestError, "after takes the number of a snapshot, or 0, found -1"),
        ({"up_to": 5.5}, InvalidRequestError, "up_to takes a snapshot, a tag or a timestamp, found 5.5"),
        ({"up_to": "t"}, NotFoundError, "has no version 't'"),
        ({"source": "log"}, InvalidRequestError, "expected one of auto, changelog, delta, difference"),
    ],
    ids=str,
)
def test_a_range_of_changes_is_never_given_in_part(
    tmp_path: Path, given: dict[str, Any], error: type[LakelogError], message: str
) -> None:
    with pytest.raises(error, match=message):
        changes_of(expired(tmp_path), **given)


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        ({}, [3, 4, 5]),
        ({"after": 3}, [3, 4, 5]),
        ({"after": 4, "up_to": 5}, [4]),
        ({"up_to": 4}, [3]),
        ({"after": 6}, []),
    ],
    ids=str,
)
def test_changes_that_are_kept_are_given(tmp_path: Path, given: dict[str, Any], ids: list[int]) -> None:
    table = expired(tmp_path)
    assert [row["id"] for batch in changes_of(table, **given) for row in batch.to_pylist()] == ids


def test_a_table_without_snapshots_has_no_changes_yet(tmp_path: Path) -> None:
    table = make(tmp_path, {})
    assert list(changes_of(table)) == list(changes_of(table, after=0)) == []
    with pytest.raises(
        NotFoundError, match="has no snapshot 1, which after names: it has no snapshot yet; name 0 at most"
    ):
        changes_of(table, after=1)


def test_the_input_is_in_the_changelog_as_it_was_given_by_key(tmp_path: Path) -> None:
    table = make(tmp_path, {"changelog-producer": "input"})
    table.write(rows((2, 1, "x"), (1, 1, "x"), (2, 2, "y")), kinds=pa.array([0, 0, 2], pa.int8()))
    table.write(rows((2, 2, "y"), (2, 3, "z")), kinds=pa.array([1, 2], pa.int8()))
    assert told(table) == [
        ("+I", 1, 1, "x"),
        ("+I", 2, 1, "x"),
        ("+U", 2, 2, "y"),
        ("-U", 2, 2, "y"),
        ("+U", 2, 3, "z"),
    ]
    table.write(rows((9, 9, "new")), mode="overwrite")
    assert sorted(told(table)[5:]) == [("+I", 9, 9, "new"), ("-D", 1, 1, "x"), ("-D", 2, 3, "z")]
    assert table.to_arrow()["id"].to_pylist() == [9]


def test_updates_that_change_nothing_are_left_out_when_asked(tmp_path: Path) -> None:
    options = {
        "changelog-producer": "lookup",
        "changelog-producer.row-deduplicate": "true",
        "changelog-producer.row-deduplicate-ignore-fields": "a",
    }
    table = make(tmp_path, options)
    table.write(rows((1, 1, "x"), (2, 1, None), (3, 1, "z")))
    seen = table.snapshots.latest_id() or 0
    table.write(rows((1, 2, "x"), (2, 1, None), (3, 1, None)))
    assert told(table, seen) == [("-U", 3, 1, "z"), ("+U", 3, 1, None)]


def test_the_first_row_of_a_key_stays_and_is_in_the_changelog_once(tmp_path: Path) -> None:
    table = make(tmp_path, {"merge-engine": "first-row", "changelog-producer": "lookup"})
    for batch in range(6):
        table.write(rows((batch, batch, "first"), (batch + 1, batch, "second"), (batch, batch, "third")))
    expected = [(0, 0, "first"), *((key, key - 1, "second") for key in range(1, 7))]
    assert sorted(tuple(row.values()) for row in table.to_arrow().to_pylist()) == expected
    assert sorted(told(table)) == [("+I", *row) for row in expected]
    table.compact(full=True)
    assert sorted(tuple(row.values()) for row in table.to_arrow().to_pylist()) == expected
    with pytest.raises(InvalidRequestError, match="first-row and takes no -D; set ignore-delete=true"):
        table.write(rows((1, 0, "x")), kinds=pa.array([DELETE], pa.int8()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"merge-engine": "first-row", "changelog-producer": "input"},
            "first-row goes with changelog-producer=none or lookup, found input",
        ),
        (
            {"changelog-producer": "lookup", "full-compaction.delta-commits": "3"},
            "leave out full-compaction.delta-commits, or use changelog-producer=full-compaction",
        ),
    ],
)
def test_options_that_contradict_are_refused(tmp_path: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        make(tmp_path, options)


def test_full_compactions_wait_for_as_many_commits_as_asked(tmp_path: Path) -> None:
    options = {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "3"}
    table = make(tmp_path, options)
    for batch in range(1, 7):
        table.write(rows((1, batch, None)))
        assert len(told(table)) == {1: 0, 2: 0, 3: 1, 4: 1, 5: 1, 6: 3}[batch]
    assert told(table) == [("+I", 1, 3, None), ("-U", 1, 3, None), ("+U", 1, 6, None)]


def test_what_a_lookup_reads_grows_with_the_batch_and_not_with_the_table(tmp_path: Path) -> None:
    read: dict[int, int] = {}
    for size in (100_000, 800_000):
        file_io = CountingFileIO()
        table = make(tmp_path / str(size), {"changelog-producer": "lookup"}, file_io=file_io)
        ids = np.arange(size)
        texts = [f"text {number}" for number in np.random.default_rng(7).integers(0, 1 << 60, size)]
        table.write(pa.table([ids, ids * 7919 % 1_000_003, texts], schema=SCHEMA))
        table.write(rows((size // 2, 0, "warm")))  # a level between: the large run is left out from here on
        before = file_io.bytes_read
        table.write(rows(*((size // 3 + id, id, "new") for id in range(100))))
        read[size] = file_io.bytes_read - before
        assert told(table)[-2:] == [
            ("-U", size // 3 + 99, (size // 3 + 99) * 7919 % 1_000_003, texts[size // 3 + 99]),
            ("+U", size // 3 + 99, 99, "new"),
        ]
    assert read[800_000] < 1.5 * read[100_000]  # 8 times the rows


FOLLOWING = {
    "changelog-producer": st.sampled_from(["lookup", "full-compaction"]),
    "num-sorted-run.compaction-trigger": st.sampled_from(["1", "2", "5"]),
}
History = list[list[tuple[int, int | None, str | None, int]]]
ENGINES: list[Mapping[str, str]] = [
    {},
    {"sequence.field": "a"},
    {"sequence.field": "a", "sequence.field.sort-order": "descending"},
    {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    {
        "merge-engine": "partial-update",
        "fields.a.sequence-group": "b",
        "partial-update.remove-record-on-sequence-group": "a",
    },
    {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"},
    {"merge-engine": "first-row", "ignore-delete": "true"},
]
changes = st.tuples(
    st.integers(0, 12), st.none() | st.integers(0, 5), st.none() | st.sampled_from("xyz"), st.sampled_from([0, 2, 3])
)
histories = st.lists(st.lists(changes, min_size=1, max_size=8), min_size=1, max_size=9)


@settings(max_examples=examples(25))
@given(history=histories, engine=st.sampled_from(ENGINES), following=st.fixed_dictionaries(FOLLOWING), data=st.data())
def test_changes_fold_to_the_rows_of_the_table(
    tmp_path_factory: pytest.TempPathFactory,
    history: History,
    engine: Mapping[str, str],
    following: dict[str, str],
    data: st.DataObject,
) -> None:
    """After every write: each change fits what the changes before it left, and all together give the table's rows.

    Also when the rows move to other buckets in between.
    """
    options = {**engine, **following}
    if engine.get("merge-engine") == "first-row":
        options["changelog-producer"] = "lookup"
    table = make(tmp_path_factory.mktemp("t"), options)
    # What a dropped delete leaves behind differs by when compactions come, but for plain rows; so it is with Paimon.
    is_fixed = not engine or all(kind != DELETE for batch in history for *_, kind in batch)
    plain = make(tmp_path_factory.mktemp("t"), engine) if is_fixed and "first-row" not in engine.values() else None
    state: dict[object, tuple[object, ...]] = {}
    seen = 0
    for batch in history:
        given = rows(*(row[:3] for row in batch))
        kinds = pa.array([row[3] for row in batch], pa.int8())
        for one in (table, plain):
            if one is not None:
                one.write(given, kinds=kinds)
        if data.draw(st.booleans()):
            table.compact(full=True)
        if data.draw(st.sampled_from([False, False, False, True])):
            table = rescale(table, data.draw(st.integers(1, 3)))
        for kind, *row in told(table, seen):
            if kind in ("-U", "-D"):
                assert state.pop(row[0]) == tuple(row)
            else:
                assert row[0] not in state
                state[row[0]] = tuple(row)
        seen = table.snapshots.latest_id() or 0
        found = [tuple(row.values()) for row in table.to_arrow().to_pylist()]
        assert len(found) == len(state)
        assert {row[0]: row for row in found} == state
        if plain is not None:
            assert sorted(map(str, found)) == sorted(str(tuple(row.values())) for row in plain.to_arrow().to_pylist())

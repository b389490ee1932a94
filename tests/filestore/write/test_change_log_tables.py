"""Tables without primary key that take deletes: equal rows are counted, and a delete takes one of them away."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any  # Any: values of every column type

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lakelog.common.arrow import from_arrow_field
from lakelog.common.errors import InvalidRequestError, OptionError, UnsupportedError
from lakelog.common.types import ROW_KIND_TEXTS, DataField, DataType, parse_type
from lakelog.filestore.alter.schema_changes import (
    AddColumn,
    DropColumn,
    Place,
    Position,
    RenameColumn,
    SchemaChange,
    SetComment,
    SetNullability,
    SetOption,
    UpdateColumnPosition,
    UpdateColumnType,
)
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.merge.counting import changed_rows, present_rows
from lakelog.filestore.read.split_rows import read_splits
from lakelog.filestore.schema.counted_schema import COUNT_COLUMN
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes as changes_of
from lakelog.filestore.verbs import drop_partitions, rescale, to_duckdb, to_polars
from lakelog.filestore.write.table_write import TableWrite
from tests.support.examples import examples
from tests.support.tables.altered import altered as altered_table
from tests.support.tables.column_types import exact_rows, fields_of, scalar_types, tables

UNSYNCED = LocalFileIO(sync_data=False)
SCHEMA = pa.schema(
    [pa.field("id", pa.int64()), pa.field("day", pa.string()), pa.field("v", pa.float64()), pa.field("t", pa.string())]
)
LAYOUTS: dict[str, tuple[dict[str, str], list[str]]] = {
    "one bucket": ({"fields.v.stats-mode": "none"}, []),
    "buckets": ({"bucket": "3"}, []),
    "partitions": ({"bucket": "2"}, ["day"]),
    "bucket key": ({"bucket": "2", "bucket-key": "id"}, ["day"]),
}
CHANGE_LOG = {"write-mode": "change-log"}
ADD, TAKE = 0, 3
ROW = (1, "mon", 0.5, "x")
NULLS = (None, None, None, None)


def make(folder: Path, layout: str = "one bucket", **options: str) -> FileStoreTable:
    given_options, partitions = LAYOUTS[layout]
    schema = build_schema(SCHEMA, partition_keys=partitions, options={**CHANGE_LOG, **given_options, **options})
    return FileStoreTable.create(folder / "t", schema, UNSYNCED)


def rows_of(rows: Sequence[Sequence[object]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


def write(table: FileStoreTable, rows: Sequence[Sequence[object]], kind: int = ADD) -> None:
    table.write(rows_of(rows), kinds=pa.array([kind] * len(rows), pa.int8()))


def multiset(rows: pa.Table) -> Counter[str]:
    return Counter(exact_rows(rows))


def told(table: FileStoreTable, after: int, up_to: int) -> Counter[str]:
    """What the changes of snapshots come to: how often each row was added, less how often it was taken away."""
    found: Counter[str] = Counter()
    for batch in changes_of(table, after=after, up_to=up_to):
        rows = pa.Table.from_batches([batch])
        for kind, row in zip(
            rows.column("_row_kind").to_pylist(), exact_rows(rows.drop_columns("_row_kind")), strict=True
        ):
            found[row] += {"+I": 1, "-D": -1}[kind]
    return found


# Counts.


@pytest.mark.parametrize("row", [ROW, NULLS, (None, "mon", float("nan"), None)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_delete_of_one_of_three_equal_rows_leaves_two(tmp_path: Path, layout: str, row: tuple[object, ...]) -> None:
    other = (2, "mon", 0.5, "x")
    table = make(tmp_path, layout)
    write(table, [row, other, row, row])
    write(table, [row], TAKE)
    left = multiset(rows_of([row, row, other]))
    assert multiset(table.to_arrow()) == left
    table.compact(full=True)
    assert multiset(table.to_arrow()) == left
    write(table, [row, other], TAKE)
    assert multiset(table.to_arrow()) == multiset(rows_of([row]))


def test_a_delete_in_the_batch_of_the_inserts_takes_one_away(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(rows_of([ROW, ROW, ROW, ROW]), kinds=pa.array([0, 2, 1, 0], pa.int8()))  # +I +U -U +I
    assert multiset(table.to_arrow()) == multiset(rows_of([ROW, ROW]))
    table.write(rows_of([NULLS, NULLS]), kinds=pa.array([3, 0], pa.int8()))
    assert multiset(table.to_arrow()) == multiset(rows_of([ROW, ROW]))


def test_a_row_that_is_taken_away_first_is_cancelled_by_its_insert(tmp_path: Path) -> None:
    table = make(tmp_path)
    write(table, [ROW, ROW], TAKE)
    assert table.to_arrow().num_rows == 0
    table.compact(full=True)
    write(table, [ROW])
    assert table.to_arrow().num_rows == 0
    write(table, [ROW, ROW])
    assert multiset(table.to_arrow()) == multiset(rows_of([ROW]))


@pytest.mark.parametrize("function", ["default", "hive"])
def test_zeros_of_two_signs_are_two_rows_and_all_nans_are_one(tmp_path: Path, function: str) -> None:
    table = make(tmp_path, bucket="64", **{"bucket-function.type": function})
    quiet, other = np.array([0x7FF8000000000000, 0xFFF8000000000001], np.uint64).view(np.float64)
    values = pa.array([0.0, -0.0, quiet, other])
    rows = pa.table([pa.nulls(4, pa.int64()), pa.nulls(4, pa.string()), values, pa.nulls(4, pa.string())], SCHEMA)
    table.write(rows)
    table.write(rows.slice(1, 2), kinds=pa.array([TAKE, TAKE], pa.int8()))
    assert sorted(map(str, table.to_arrow().column("v").to_pylist())) == ["0.0", "nan"]


def test_counts_above_what_a_batch_holds_come_in_many_batches(tmp_path: Path) -> None:
    table = make(tmp_path)
    rows = pa.concat_tables([rows_of([ROW])] * 200_000)
    table.write(rows)
    table.write(rows)
    table.write(rows.slice(0, 1), kinds=pa.array([TAKE], pa.int8()))
    assert sum(file.row_count for file in files_of(table)) == 3  # of three runs
    batches = list(table.planned().batches())
    assert sum(batch.num_rows for batch in batches) == 399_999
    read = table.planned()
    small = [batch for split in read.splits for batch in read_small(table, split)]
    assert sum(batch.num_rows for batch in small) == 399_999
    assert max(batch.nbytes for batch in small) < 200_000


repeats = st.lists(st.tuples(st.integers(0, 300), st.integers(-3, 40)), min_size=1, max_size=12)


@given(repeats=repeats, piece_bytes=st.integers(1, 2000))
def test_pieces_of_repeated_rows_are_small_and_lose_none(repeats: list[tuple[int, int]], piece_bytes: int) -> None:
    texts = [f"{at}".ljust(length) for at, (length, _) in enumerate(repeats)]
    rows = pa.table({"text": texts, COUNT_COLUMN: pa.array([count for _, count in repeats], pa.int64())})
    present = list(present_rows(rows, piece_bytes=piece_bytes))
    assert [text for piece in present for text in piece["text"].to_pylist()] == [
        text for text, (_, count) in zip(texts, repeats, strict=True) for _ in range(count)
    ]
    changed = [
        (text, kind)
        for batch in rows.to_batches()
        for piece, kinds_of in changed_rows(batch, piece_bytes=piece_bytes)
        for text, kind in zip(piece.column("text").to_pylist(), kinds_of.to_pylist(), strict=True)
    ]
    assert changed == [
        (text, ADD if count > 0 else TAKE)
        for text, (_, count) in zip(texts, repeats, strict=True)
        for _ in range(abs(count))
    ]
    if any(count not in {0, 1} for _, count in repeats):
        assert all(sum(map(len, piece["text"].to_pylist())) <= piece_bytes for piece in present if piece.num_rows > 1)


def read_small(table: FileStoreTable, split: Any) -> list[pa.RecordBatch]:
    return list(read_splits(table, [split], batch_bytes=100_000))


def files_of(table: FileStoreTable) -> list[Any]:
    return [entry.file for entry in table.live_files.of(table.snapshots.latest()).entries()]


def stored(table: FileStoreTable) -> list[dict[str, Any]]:
    """The rows of all live files, as they are."""
    entries = table.live_files.of(table.snapshots.latest()).entries()
    paths = [table.data_path(entry.bucket_id, entry.file) for entry in entries]
    return [row for path in paths for row in pq.read_table(path, partitioning=None).to_pylist()]


def test_rows_that_come_to_nothing_leave_the_files(tmp_path: Path) -> None:
    table = make(tmp_path, **{"write-only": "true"})
    write(table, [ROW, NULLS, NULLS])
    write(table, [ROW], TAKE)
    assert len(stored(table)) == 3
    table.compact(full=True)
    assert [row[COUNT_COLUMN] for row in stored(table)] == [2]


# Everything that reads.


@pytest.fixture
def filled(tmp_path: Path) -> FileStoreTable:
    table = make(tmp_path, "buckets")
    write(table, [ROW, ROW, ROW, NULLS, NULLS, (2, "tue", 1.5, "y")])
    write(table, [ROW, (2, "tue", 1.5, "y")], TAKE)
    return FileStoreTable.open(table.path)


def test_users_see_their_columns_and_no_key(filled: FileStoreTable) -> None:
    assert filled.schema.arrow_schema == SCHEMA
    assert (filled.schema.primary_keys, filled.schema.highest_field_id) == ((), 3)
    assert set(filled.options) == {"bucket", "bucket-key", "lakelog.table-uuid", "write-mode"}
    assert COUNT_COLUMN not in filled.schema.to_json()
    with pytest.raises(InvalidRequestError, match=COUNT_COLUMN):
        filled.to_arrow(columns=[COUNT_COLUMN])
    with pytest.raises(InvalidRequestError, match=COUNT_COLUMN):
        filled.to_arrow(where=f"{COUNT_COLUMN} > 0")


def test_every_reader_gives_each_row_as_often_as_it_is_there(filled: FileStoreTable) -> None:
    wanted = multiset(rows_of([ROW, ROW, NULLS, NULLS]))
    assert multiset(filled.to_arrow()) == wanted
    assert multiset(pa.Table.from_batches(filled.planned().batches())) == wanted
    assert multiset(pa.table(filled)) == wanted
    assert multiset(to_polars(filled).collect().to_arrow().cast(SCHEMA)) == wanted
    assert to_polars(filled).select(pl.len()).collect().item() == 4
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        found = to_duckdb(filled, connection=connection)
        assert found.aggregate("count(*), count(id), sum(v)").fetchall() == [(4, 2, 1.0)]


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("id = 1", 2),
        ("id is null", 2),
        ("id is not null", 2),
        ("day = 'mon' and v < 1", 2),
        ("id = 2", 0),
        ("id > 1 or t is null", 2),
        ("v is null and day is null", 2),
    ],
)
def test_filters_skip_no_null_keys(filled: FileStoreTable, where: str, count: int, *, is_compacted: bool) -> None:
    if is_compacted:
        filled.compact(full=True)
    assert filled.to_arrow(where=where, columns=["t"]).num_rows == count
    assert filled.to_arrow(where=where, columns=[]).num_rows == count


def test_time_travel_shows_the_counts_of_then(filled: FileStoreTable) -> None:
    assert filled.to_arrow(snapshot_id=1).num_rows == 6
    assert filled.to_arrow(snapshot_id=2).num_rows == 4


def test_changes_come_as_often_as_they_happened(filled: FileStoreTable) -> None:
    texts = [pa.Table.from_batches(changes_of(filled, after=at, up_to=at + 1)) for at in (0, 1)]
    kinds = [Counter(one.column("_row_kind").to_pylist()) for one in texts]
    assert kinds == [{"+I": 6}, {"-D": 2}]
    assert multiset(texts[0].drop_columns("_row_kind")) == multiset(
        rows_of([ROW, ROW, ROW, NULLS, NULLS, (2, "tue", 1.5, "y")])
    )
    only = pa.Table.from_batches(changes_of(filled, after=1, columns=["t"]))
    assert sorted(only.column("t").to_pylist()) == ["x", "y"]


# Writers and upkeep.


def test_two_writers_on_one_snapshot_both_count_and_neither_writes_again(tmp_path: Path) -> None:
    table = make(tmp_path)
    write(table, [ROW])
    writes = [TableWrite(table, rows_of([row]), kinds(kind), replaces=None) for row, kind in ((ROW, ADD), (ROW, TAKE))]
    for one in writes:
        assert TableCommit(table).commit(one.resolve) is not None
    assert [one.superseded for one in writes] == [[], []]
    assert multiset(table.to_arrow()) == multiset(rows_of([ROW]))


def kinds(*values: int) -> pa.Array:
    return pa.array(values, pa.int8())


def test_an_overwrite_and_a_dropped_partition_forget_the_counts(tmp_path: Path) -> None:
    table = make(tmp_path, "partitions")
    write(table, [ROW, ROW, (2, "tue", None, None)])
    write(table, [ROW, ROW], TAKE)
    table.write(rows_of([ROW, ROW, ROW]), mode="overwrite", where="day = 'mon'")
    assert multiset(table.to_arrow()) == multiset(rows_of([ROW, ROW, ROW, (2, "tue", None, None)]))
    drop_partitions(table, "day = 'mon'")
    write(table, [ROW])
    assert multiset(table.to_arrow()) == multiset(rows_of([ROW, (2, "tue", None, None)]))


def test_a_rescale_keeps_counts_also_those_below_zero(tmp_path: Path) -> None:
    table = make(tmp_path)
    write(table, [NULLS, NULLS])
    write(table, [ROW, ROW], TAKE)
    table = rescale(table, 3)
    assert multiset(table.to_arrow()) == multiset(rows_of([NULLS, NULLS]))
    write(table, [ROW, ROW, ROW, NULLS])
    assert multiset(table.to_arrow()) == multiset(rows_of([ROW, NULLS, NULLS, NULLS]))


# Every type, every history.


def long_enough(kind: DataType) -> DataType:
    return kind if kind.length is None else replace(kind, length=max(kind.length, 64))


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@given(data=st.data())
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
def test_rows_of_every_type_are_counted(
    tmp_path_factory: pytest.TempPathFactory, file_format: str, data: st.DataObject
) -> None:
    fields = data.draw(fields_of(scalar_types, min_size=1, max_size=4))
    fields = [replace(field, name=f"c{at}", type=long_enough(field.type)) for at, field in enumerate(fields)]
    options = {**CHANGE_LOG, "bucket": "2", "file.format": file_format}
    try:
        schema = build_schema(fields, options=options)
    except UnsupportedError:  # a type that no table of the format has
        assume(False)
        raise
    table = FileStoreTable.create(tmp_path_factory.mktemp("w") / "t", schema, UNSYNCED)
    rows = data.draw(tables(schema.fields, max_rows=6))
    gone = data.draw(st.lists(st.integers(0, 5).filter(lambda at: at < rows.num_rows), unique=True))
    assume(rows.num_rows)
    try:
        table.write(pa.concat_tables([rows, rows]))
    except InvalidRequestError as error:
        assume("ORC files cannot hold" not in str(error))
        raise
    table.write(rows.take(pa.array(gone, pa.int64())), kinds=kinds(*[TAKE] * len(gone)))
    expected = multiset(rows) + multiset(rows)
    expected.subtract(multiset(rows.take(pa.array(gone, pa.int64()))))
    assert multiset(table.to_arrow()) == +expected
    table.compact(full=True)
    assert multiset(table.to_arrow()) == +expected


few = st.tuples(
    st.sampled_from([None, 0, 1]),
    st.sampled_from([None, "mon", "tue"]),
    st.sampled_from([None, 0.0, -0.0, float("nan")]),
    st.sampled_from([None, "", "x"]),
)
changes = st.lists(st.tuples(few, st.sampled_from([0, 0, 0, 1, 2, 3])), max_size=12)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), changes),
        st.tuples(st.just("race"), st.tuples(changes, changes)),
        st.tuples(st.just("compact"), st.booleans()),
    ),
    min_size=1,
    max_size=8,
)


def write_of(table: FileStoreTable, given_changes: Sequence[tuple[Sequence[object], int]]) -> TableWrite:
    rows = rows_of([row for row, _ in given_changes])
    return TableWrite(table, rows, kinds(*[kind for _, kind in given_changes]), replaces=None)


def counted(given_changes: Sequence[tuple[Sequence[object], int]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_, kind), row in zip(given_changes, exact_rows(rows_of([row for row, _ in given_changes])), strict=True):
        found[row] += 1 if ROW_KIND_TEXTS[kind] in {"+I", "+U"} else -1
    return found


@given(layout=st.sampled_from(list(LAYOUTS)), history=steps)
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.too_slow])
def test_every_snapshot_of_a_history_has_the_rows_of_a_counter(
    tmp_path_factory: pytest.TempPathFactory, layout: str, history: list[tuple[str, Any]]
) -> None:
    table = make(
        tmp_path_factory.mktemp("h"), layout, **{"write-only": "true", "num-sorted-run.compaction-trigger": "2"}
    )
    model: Counter[str] = Counter()
    states = [Counter(model)]
    for what, argument in history:
        if what == "compact":
            if table.compact(full=argument) is not None:
                states.append(Counter(model))
            continue
        parts = [argument] if what == "write" else argument
        for one, prepared in [(part, write_of(table, part)) for part in parts]:
            assert TableCommit(table).commit(prepared.resolve) is not None
            model.update(counted(one))
            states.append(Counter(model))
    table = FileStoreTable.open(table.path)
    assert table.snapshots.latest_id() == (len(states) - 1 or None)
    for at, state in enumerate(states[1:], 1):
        assert multiset(table.to_arrow(snapshot_id=at)) == +state
        before = Counter(states[at // 2])
        change = told(table, at // 2, at)
        assert {row: n for row, n in change.items() if n} == {
            row: state[row] - before[row] for row in state.keys() | before.keys() if state[row] != before[row]
        }


# What is refused.


def test_types_that_are_no_keys_are_refused() -> None:
    columns = pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))])
    with pytest.raises(InvalidRequestError, match=r"column 'tags' has the type ARRAY<STRING>.*whole row is the key"):
        build_schema(columns, options=CHANGE_LOG)


@pytest.mark.parametrize(
    "options",
    [
        {"changelog-producer": "lookup"},
        {"changelog-producer": "full-compaction"},
        {"changelog-producer": "input"},
        {"merge-engine": "aggregation"},
        {"sequence.field": "v"},
        {"ignore-delete": "true"},
        {"rowkind.field": "t"},
        {"deletion-vectors.enabled": "true"},
        {"fields.default-aggregate-function": "sum"},
        {"fields.id.sequence-group": "v"},
    ],
    ids=str,
)
def test_options_of_keys_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidRequestError, match=f"'{re.escape(next(iter(options)))}' .*change-log"):
        build_schema(SCHEMA, options={**CHANGE_LOG, **options})


def test_other_creations_that_cannot_be_right_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="bucket=-1"):
        build_schema(SCHEMA, options={**CHANGE_LOG, "bucket": "-1"})
    with pytest.raises(InvalidRequestError, match="not a partition column"):
        build_schema(SCHEMA.remove(2), partition_keys=["id", "day", "t"], options=CHANGE_LOG)
    with pytest.raises(InvalidRequestError, match=f"'{COUNT_COLUMN}'"):
        build_schema(pa.schema([(COUNT_COLUMN, pa.int64())]), options=CHANGE_LOG)
    with pytest.raises(InvalidRequestError, match="append-only is for tables without primary key"):
        build_schema(SCHEMA, primary_keys=["id"], options={"write-mode": "append-only"})
    with pytest.raises(OptionError, match="row-count-column"):
        build_schema(SCHEMA, options={"lakelog.row-count-column": COUNT_COLUMN})


def test_append_only_is_what_tables_without_key_are(tmp_path: Path) -> None:
    for number, options in enumerate(({}, {"write-mode": "append-only"}, {"write-mode": "auto"})):
        table = FileStoreTable.create(tmp_path / str(number), build_schema(SCHEMA, options=options), UNSYNCED)
        with pytest.raises(InvalidRequestError, match=r"takes inserts only.*write-mode=change-log"):
            write(table, [ROW], TAKE)
    keyed = build_schema(SCHEMA, primary_keys=["id"], options=CHANGE_LOG)
    assert not keyed.is_change_log


@pytest.mark.parametrize(
    "change",
    [
        AddColumn("more", "INT"),
        DropColumn("v"),
        UpdateColumnType("v", "STRING"),
        SetOption("write-mode", "append-only"),
        SetOption("merge-engine", "deduplicate"),
        SetOption("changelog-producer", "input"),
        SetOption("bucket-key", "id"),
        RenameColumn("v", COUNT_COLUMN),
    ],
    ids=str,
)
def test_changes_of_the_schema_that_would_make_other_rows_are_refused(tmp_path: Path, change: SchemaChange) -> None:
    table = make(tmp_path)
    with pytest.raises(InvalidRequestError):
        altered_table(table, change)
    assert FileStoreTable.open(table.path).schema == table.schema


def test_changes_of_the_schema_that_keep_rows_keep_counts(tmp_path: Path) -> None:
    schema = build_schema(
        [*[from_arrow_field(field) for field in SCHEMA], DataField(id=0, name="n", type=parse_type("INT NOT NULL"))],
        options={**CHANGE_LOG, "bucket": "3"},
    )
    table = FileStoreTable.create(tmp_path / "t", schema, UNSYNCED)
    rows = rows_of([ROW, ROW, NULLS]).append_column("n", pa.array([1, 1, 2], pa.int32()))
    table.write(rows)
    altered = altered_table(
        table,
        RenameColumn("v", "value"),
        UpdateColumnPosition("t", Position(Place.FIRST)),
        UpdateColumnPosition("id", Position(Place.LAST)),
        SetNullability("n", nullable=True),
        SetComment("t", "moved"),
        SetOption("write-only", "true"),
    )
    renamed = rows.rename_columns(["id", "day", "value", "t", "n"]).select(["t", "day", "value", "n", "id"])
    assert altered.schema.field_names == ("t", "day", "value", "n", "id")
    altered.write(renamed.slice(1), kinds=kinds(TAKE, TAKE))
    altered.write(renamed.slice(0, 1).set_column(3, "n", pa.array([None], pa.int32())))
    opened = FileStoreTable.open(table.path)
    expected = [(*ROW, 1), (*ROW, None)]
    for is_compacted in (False, True):
        if is_compacted:  # by who knows the older schema only
            assert table.compact(full=True) is not None
        found = opened.to_arrow(columns=["id", "day", "value", "t", "n"])
        assert sorted(found.to_pylist(), key=str) == sorted(
            (dict(zip(found.column_names, row, strict=True)) for row in expected), key=str
        )
        assert opened.to_arrow(where="value = 0.5 and n is null").num_rows == 1


def test_a_table_that_lakelog_did_not_make_is_refused(tmp_path: Path) -> None:
    """Paimon up to 0.5 had such tables with files of another layout; so would another engine's changes make."""
    table = make(tmp_path)
    path = Path(table.path) / "schema" / "schema-0"
    text = json.loads(path.read_text("utf-8"))
    text.pop("lakelogDigest")
    path.write_text(json.dumps({**text, "primaryKeys": ["id"]}), "utf-8")
    with pytest.raises(UnsupportedError, match="another engine has changed"):
        FileStoreTable.open(table.path)
    path.write_text(json.dumps({**text, "primaryKeys": [], "options": {**CHANGE_LOG, "bucket": "1"}}), "utf-8")
    with pytest.raises(UnsupportedError, match=r"Paimon 0\.5"):
        FileStoreTable.open(table.path)

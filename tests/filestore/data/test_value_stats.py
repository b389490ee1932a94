"""Statistics of value columns: what is written, what is read, and that they never skip a row that a filter wants."""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any  # Any: values of any type

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakelog.common.errors import OptionError
from lakelog.common.types import DataField, parse_type
from lakelog.filestore.encoding.binary_row import StoredValue, deserialize_row
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.options.stats_mode import truncated_bounds
from lakelog.filestore.predicate import Predicate, RowTest, parse_where
from lakelog.filestore.predicate.tree import And, Compare, Comparison, In, IsNull, Like, Literal, LiteralKind, Or
from lakelog.filestore.read.scan import plan_splits
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.table import FileStoreTable
from tests.support.examples import examples
from tests.support.tables.small_tables import UNSYNCED

CALM = settings(
    max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("i", pa.int32()),
        pa.field("f", pa.float64()),
        pa.field("s", pa.string()),
        pa.field("d", pa.decimal128(30, 2)),
        pa.field("t", pa.timestamp("us")),
        pa.field("b", pa.binary()),
        pa.field("l", pa.list_(pa.int32())),
    ]
)
TEXTS = ["", "a", "b", "a" * 16, "a" * 17, "a" * 15 + "\U0010ffff", "\U0010ffff" * 20, "\ud7ff" * 20, "é", "zz"]


def stored_stats(table: FileStoreTable, file: DataFileMeta) -> dict[str, tuple[StoredValue, StoredValue, int | None]]:
    """Least, most and null count of each column that the statistics of a file cover."""
    names = table.schema.field_names if file.value_stats_cols is None else file.value_stats_cols
    kinds = [table.schema.field(name).type for name in names]
    counts = file.value_stats.null_counts
    assert counts is not None
    least = deserialize_row(kinds, file.value_stats.min_values)
    most = deserialize_row(kinds, file.value_stats.max_values)
    return dict(zip(names, zip(least, most, counts, strict=True), strict=True))


def only_file(table: FileStoreTable) -> DataFileMeta:
    (entry,) = table.live_files.of(table.snapshots.latest()).entries()
    return entry.file


def written(folder: Path, values: list[Any], kind: pa.DataType, **options: str) -> tuple[Any, Any, int | None]:
    """The statistics of a column of one file."""
    schema = build_schema(pa.schema([pa.field("x", kind)]), options={"bucket": "-1", **options})
    table = FileStoreTable.create(folder / "t", schema, UNSYNCED)
    table.write(pa.table([pa.array(values, kind)], names=["x"]))
    return stored_stats(table, only_file(table))["x"]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([3, None, -1], pa.int8(), (-1, 3, 1)),
        ([None, None], pa.int32(), (None, None, 2)),
        ([True, True], pa.bool_(), (True, True, 0)),
        (["é", "z", "a"], pa.string(), ("a", "é", 0)),
        (["a" * 17, "b" * 17], pa.string(), ("a" * 16, "b" * 15 + "c", 0)),
        (["\U0010ffff" * 17], pa.string(), (None, None, 0)),
        ([b"\x00", b"\xff", None], pa.binary(), (None, None, 1)),  # Paimon in Java compares bytes as signed numbers
        ([Decimal("-7.10"), Decimal("8.00")], pa.decimal128(5, 2), (Decimal("-7.10"), Decimal("8.00"), 0)),
        ([Decimal(-(10**29)), Decimal(1)], pa.decimal128(38, 2), (Decimal(-(10**29)), Decimal(1), 0)),
        ([-1, 1], pa.timestamp("s"), (-1, 1, 0)),
        ([-1_001, 1], pa.timestamp("us", tz="UTC"), (-1_001, 1, 0)),
        ([1, 2, None], pa.timestamp("ns"), (None, None, 1)),  # Parquet has no bounds of INT96
        ([5, 7], pa.time32("ms"), (5, 7, 0)),
        ([-719_162, 2_932_896], pa.date32(), (-719_162, 2_932_896, 0)),
    ],
)
def test_bounds_are_exact_or_around_the_values(
    tmp_path: Path, values: list[Any], kind: pa.DataType, expected: tuple[Any, Any, int]
) -> None:
    array = pa.array(values, pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else pa.array(values, kind)
    schema = build_schema(pa.schema([pa.field("x", kind)]), options={"bucket": "-1"})
    table = FileStoreTable.create(tmp_path / "t", schema, UNSYNCED)
    table.write(pa.table([array], names=["x"]))
    assert stored_stats(table, only_file(table))["x"] == expected


def test_nan_is_the_largest_number_and_both_zeros_are_within_the_bounds(tmp_path: Path) -> None:
    least, most, _ = written(tmp_path, [1.0, math.nan, -2.0], pa.float64())
    assert least == -2.0
    assert math.isnan(most)
    least, most, _ = written(tmp_path / "only", [math.nan], pa.float32())
    assert math.isnan(least)
    least, most, _ = written(tmp_path / "zero", [0.0, 0.0], pa.float64())
    assert (math.copysign(1, least), math.copysign(1, most)) == (-1, 1)


def test_keys_of_bytes_have_no_bounds_in_manifests_and_still_skip_files(tmp_path: Path) -> None:
    columns = pa.schema([pa.field("b", pa.binary(), nullable=False), pa.field("n", pa.int32(), nullable=False)])
    schema = build_schema(columns, primary_keys=["b", "n"], options={"bucket": "1", "write-only": "true"})
    table = FileStoreTable.create(tmp_path / "t", schema, UNSYNCED)
    for key in (b"\x01", b"\xff"):
        table.write(pa.table([[key], [7]], schema=columns))
    for entry in table.live_files.of(table.snapshots.latest()).entries():
        stats = entry.file.key_stats
        kinds = [field.type for field in schema.key_fields]
        assert deserialize_row(kinds, stats.min_values) == deserialize_row(kinds, stats.max_values) == (None, 7)
        assert stats.null_counts == (0, 0)
    (split,) = plan_splits(table, table.snapshots.latest(), where=parse_where("b = X'FF'")).splits
    assert len(split.files) == 1


@pytest.mark.parametrize("primary_keys", [[], ["x", "id"]], ids=["append", "keyed"])
def test_columns_with_nan_have_no_bounds_in_footers(tmp_path: Path, primary_keys: list[str]) -> None:
    """Arrow would leave NaN out of them, and Java's readers of Parquet would skip rows that are more than a number."""
    columns = pa.schema(
        [
            pa.field("id", pa.int32(), nullable=False),
            pa.field("x", pa.float64(), nullable=False),
            pa.field("y", pa.float32()),
            pa.field("l", pa.list_(pa.float32())),
        ]
    )
    options = {"bucket": "1" if primary_keys else "-1", "write-only": "true"}
    schema = build_schema(columns, primary_keys=primary_keys, options=options)
    table = FileStoreTable.create(tmp_path / "t", schema, UNSYNCED)
    rows = pa.table([[1, 2, 3], [1.5, math.nan, 0.0], [2.0, 3.0, None], [[math.nan], None, [1.0]]], schema=columns)
    table.write(rows)
    (entry,) = table.live_files.of(table.snapshots.latest()).entries()
    footer = pq.read_metadata(table.data_path(entry.bucket_id, entry.file))
    chunks = [footer.row_group(0).column(index) for index in range(footer.num_columns)]
    told = {chunk.path_in_schema for chunk in chunks if chunk.statistics is not None and chunk.statistics.has_min_max}
    system = {"_KEY_id", "_SEQUENCE_NUMBER", "_VALUE_KIND"} if primary_keys else set()
    assert told == {"id", "y", *system}
    least, most, nulls = stored_stats(table, entry.file)["x"]
    assert (str(least), str(most), nulls) == ("-0.0", "nan", 0)


def test_a_nan_that_comes_late_begins_another_file(tmp_path: Path) -> None:
    schema = build_schema(
        pa.schema([pa.field("x", pa.float64())]),
        options={"bucket": "-1", "write-only": "true", "file.block-size": "8 b"},
    )
    table = FileStoreTable.create(tmp_path / "t", schema, UNSYNCED)
    values = [2.0, 1.0, math.nan, 4.0, math.nan, -1.0]
    table.write(pa.table([pa.array(values)], names=["x"]))
    entries = table.live_files.of(table.snapshots.latest()).entries()
    found = {entry.file.row_count: stored_stats(table, entry.file)["x"] for entry in entries}
    assert found[2] == (1.0, 2.0, 0)
    assert str(found[4]) == "(-1.0, nan, 0)"
    assert sorted(map(str, table.to_arrow()["x"].to_pylist())) == sorted(map(str, values))


@given(texts=st.lists(st.text(max_size=6), min_size=1), length=st.integers(1, 4))
def test_short_bounds_are_around_all_strings(texts: list[str], length: int) -> None:
    ordered = sorted(texts, key=str.encode)
    bounds = truncated_bounds(ordered[0], ordered[-1], length)
    if bounds is None:
        assert set(ordered[-1][:length]) == {"\U0010ffff"}
        return
    least, most = bounds
    assert max(len(least), len(most)) <= length
    assert least.encode() <= ordered[0].encode()
    assert most.encode() >= ordered[-1].encode()


def test_modes_choose_what_is_kept_of_each_column(tmp_path: Path) -> None:
    options = {"metadata.stats-mode": "none", "fields.i.stats-mode": "counts", "fields.s.stats-mode": "full"}
    table = FileStoreTable.create(tmp_path / "t", build_schema(COLUMNS, options={"bucket": "-1", **options}), UNSYNCED)
    row = dict.fromkeys(COLUMNS.names) | {"id": 1, "i": 5, "s": "x" * 40}
    table.write(pa.Table.from_pylist([row], COLUMNS))
    assert stored_stats(table, only_file(table)) == {"i": (None, None, 0), "s": ("x" * 40, "x" * 40, 0)}
    sparse = build_schema(COLUMNS, options={"bucket": "-1", "metadata.stats-dense-store": "false", **options})
    table = FileStoreTable.create(tmp_path / "u", sparse, UNSYNCED)
    table.write(pa.Table.from_pylist([row], COLUMNS))
    assert only_file(table).value_stats_cols is None
    assert stored_stats(table, only_file(table))["id"] == (None, None, None)


def test_columns_of_nested_types_have_no_statistics(tmp_path: Path) -> None:
    table = FileStoreTable.create(tmp_path / "t", build_schema(COLUMNS, options={"bucket": "-1"}), UNSYNCED)
    table.write(pa.Table.from_pylist([{"id": 1, "l": [1]}], COLUMNS))
    assert only_file(table).value_stats_cols == tuple(COLUMNS.names[:-1])


@pytest.mark.parametrize("key", ["metadata.stats-mode", "fields.i.stats-mode"])
def test_a_mode_that_does_not_exist_is_refused_when_the_table_is_made(tmp_path: Path, key: str) -> None:
    with pytest.raises(OptionError, match=f"{key}.*truncate"):
        FileStoreTable.create(tmp_path / "t", build_schema(COLUMNS, options={"bucket": "-1", key: "some"}), UNSYNCED)


@pytest.mark.parametrize(
    ("where", "files"), [("renamed > 15", 1), ("renamed = 5", 1), ("s like 'r1%'", 2), ("new is null", 3)]
)
def test_files_of_an_append_table_are_skipped(tmp_path: Path, where: str, files: int) -> None:
    table = FileStoreTable.create(tmp_path / "t", build_schema(COLUMNS, options={"bucket": "-1"}), UNSYNCED)
    for start in (0, 10, 20):
        rows = [{"id": key, "i": key if key < 20 else None, "s": f"r{key}"} for key in range(start, start + 10)]
        table.write(pa.Table.from_pylist(rows, COLUMNS))
    table = evolved(table)
    planned = plan_splits(table, table.snapshots.latest(), where=parse_where(where))
    assert sum(len(split.files) for split in planned.splits) == files
    assert table.to_arrow(where="new is not null").num_rows == 0


# Filters: the same rows with statistics as without.

ENGINES = {
    "append": {"bucket": "-1"},
    "deduplicate": {"bucket": "1"},
    "sequence": {"bucket": "1", "sequence.field": "i"},
    "partial-update": {"bucket": "1", "merge-engine": "partial-update"},
    "first-row": {"bucket": "1", "merge-engine": "first-row"},
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "aggregation": {"bucket": "1", "merge-engine": "aggregation", "fields.i.aggregate-function": "sum"},
}
VALUES: dict[str, list[Any]] = {
    "i": [None, -5, 0, 3, 7],
    "f": [None, -math.inf, -1.5, -0.0, 0.0, 2.5, math.nan],
    "s": [None, *TEXTS],
    "d": [None, Decimal("-1.00"), Decimal("0.00"), Decimal("99999999999999999999.25")],
    "t": [None, -1, 0, 1_700_000_000_000_001],
    "b": [None, b"", b"\x00", b"\xff", b"\x7f" * 20],
}
LITERALS: dict[str, list[Literal]] = {
    "id": [Literal(kind=LiteralKind.NUMBER, value=Decimal(value)) for value in ("0", "3", "4.5", "9")],
    "i": [Literal(kind=LiteralKind.NUMBER, value=Decimal(value)) for value in ("-5", "0", "3", "6.5", "10")],
    "f": [Literal(kind=LiteralKind.NUMBER, value=Decimal(value)) for value in ("-1.5", "0", "2.5", "3")],
    "s": [Literal(kind=LiteralKind.STRING, value=value) for value in TEXTS],
    "d": [
        Literal(kind=LiteralKind.NUMBER, value=Decimal(value)) for value in ("-1", "0", "5", "99999999999999999999.25")
    ],
    "t": [Literal(kind=LiteralKind.STRING, value=value) for value in ("1970-01-01", "2023-11-14 22:13:20.000001")],
    "b": [Literal(kind=LiteralKind.BYTES, value=value) for value in (b"", b"\x00", b"\x7f" * 20, b"\xff")],
    "renamed": [Literal(kind=LiteralKind.NUMBER, value=Decimal(value)) for value in ("-5", "3", "5000000000")],
    "new": [Literal(kind=LiteralKind.NUMBER, value=Decimal(value)) for value in ("1", "2")],
}


def evolved(table: FileStoreTable) -> FileStoreTable:
    """The table with column `new`, without `b`; `i` is `renamed` and wider, but where other options name it."""
    schema = table.schema
    is_free = all("i" not in key.split(".")[1:2] and value != "i" for key, value in schema.options.items())
    fields = [field for field in schema.fields if field.name != "b"]
    if is_free:
        wide = replace(schema.field("i"), name="renamed", type=parse_type("BIGINT"))
        fields = [wide if field.name == "i" else field for field in fields]
    fields.insert(1, DataField(id=schema.highest_field_id + 1, name="new", type=parse_type("INT")))
    newer = replace(schema, id=schema.id + 1, fields=tuple(fields), highest_field_id=schema.highest_field_id + 1)
    assert table.file_io.create_new(table.paths.schema(newer.id), newer.to_json().encode())
    return FileStoreTable.open(table.path, table.file_io)


@st.composite
def some_rows(draw: st.DrawFn) -> dict[str, list[Any]]:
    ids = draw(st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True))
    return {"id": ids} | {
        name: draw(st.lists(st.sampled_from(values), min_size=len(ids), max_size=len(ids)))
        for name, values in VALUES.items()
    }


def leaves(names: list[str]) -> st.SearchStrategy[Predicate]:
    def of_column(name: str) -> st.SearchStrategy[Predicate]:
        literal = st.sampled_from(LITERALS[name])
        forms: list[st.SearchStrategy[Predicate]] = [
            st.builds(Compare, column=st.just(name), operator=st.sampled_from(Comparison), literal=literal),
            st.builds(
                In,
                column=st.just(name),
                literals=st.lists(literal, min_size=1, max_size=2).map(tuple),
                is_negated=st.booleans(),
            ),
            st.builds(IsNull, column=st.just(name), is_negated=st.booleans()),
        ]
        if name == "s":
            pattern = st.sampled_from(["a%", "%", "aaaaaaaaaaaaaaaa%", "\U0010ffff%", "_", "é"])
            forms.append(
                st.builds(Like, column=st.just(name), pattern=pattern, escape=st.just("\\"), is_negated=st.booleans())
            )
        return st.one_of(forms)

    return st.sampled_from(names).flatmap(of_column)


def filters(names: list[str]) -> st.SearchStrategy[Predicate]:
    def joined(parts: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
        several = st.lists(parts, min_size=2, max_size=3).map(tuple)
        return st.one_of(st.builds(And, parts=several), st.builds(Or, parts=several))

    return st.recursive(leaves(names), joined, max_leaves=4)


def write_some(table: FileStoreTable, given_rows: dict[str, list[Any]]) -> None:
    ids = given_rows["id"]
    columns = []
    for field, arrow in zip(table.schema.fields, table.schema.arrow_schema, strict=True):
        values = given_rows.get({"renamed": "i", "new": "id"}.get(field.name, field.name), [None] * len(ids))
        stored = pa.array(values, pa.int64()).cast(arrow.type) if field.name == "t" else pa.array(values, arrow.type)
        columns.append(stored)
    table.write(pa.table(columns, schema=table.schema.arrow_schema))


def check_filter_reads(table: FileStoreTable, where: Predicate) -> None:
    """A filtered read gives the rows of a full read that pass."""
    everything = table.to_arrow()
    test = RowTest(where, table.schema.fields)
    wanted = everything.filter(test.passing(everything)) if everything.num_rows else everything
    found = table.to_arrow(where=where)
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, wanted.to_pylist()))


@pytest.mark.parametrize(
    ("engine", "where", "ids"),
    [
        ("deduplicate", "i = 7", []),  # it was 7 once
        ("deduplicate", "i = 3", [1]),
        ("partial-update", "i = 3 and s = 'a'", [1]),  # no file has such a row
        ("aggregation", "i = 10", [1]),  # no file has such a number
    ],
)
def test_statistics_of_one_version_do_not_speak_for_the_merged_row(
    tmp_path: Path, engine: str, where: str, ids: list[int]
) -> None:
    schema = build_schema(COLUMNS, primary_keys=["id"], options={"write-only": "true", **ENGINES[engine]})
    table = FileStoreTable.create(tmp_path / "t", schema, UNSYNCED)
    for row in ({"id": 1, "i": 7, "s": "a"}, {"id": 1, "i": 3, "s": None}):
        table.write(pa.Table.from_pylist([row], COLUMNS))
    assert table.to_arrow(where=where)["id"].to_pylist() == ids


@pytest.mark.full
@CALM
@given(data=st.data(), engine=st.sampled_from(sorted(ENGINES)))
def test_a_filtered_read_is_a_full_read_that_is_filtered(data: st.DataObject, engine: str) -> None:
    keys = [] if engine == "append" else ["id"]
    options = {"file.block-size": data.draw(st.sampled_from(["1 b", "64 mb"]), "block"), "target-file-size": "1 b"}
    schema: TableSchema = build_schema(
        COLUMNS, primary_keys=keys, options={"write-only": "true", **options, **ENGINES[engine]}
    )
    with tempfile.TemporaryDirectory() as folder:
        table = FileStoreTable.create(f"{folder}/t", schema, UNSYNCED)
        for _ in range(data.draw(st.integers(3, 6), "steps")):
            step = data.draw(st.sampled_from(["write", "write", "write", "compact", "evolve"]), "step")
            if step == "compact":
                table.compact(full=True)
            elif step == "evolve" and table.schema.id == 0:
                table = evolved(table)
            else:
                write_some(table, data.draw(some_rows(), "rows"))
        names = [name for name in table.schema.field_names if name in LITERALS]
        for _ in range(12):
            check_filter_reads(table, data.draw(filters(names), "filter"))

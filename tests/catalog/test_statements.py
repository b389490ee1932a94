"""Update, merge and truncate of tables without a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, InvalidRequestError, Table, UnsupportedError
from lakelog.filestore.write import MergeClauses, merge_plan, row_source, update_plan

SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int32()), pa.field("name", pa.string())]
)
Row = tuple[int | None, int | None, str | None]


def table_of(folder: Path, keys: tuple[str, ...] = ("k",), **options: str) -> Table:
    table = Catalog(folder).create_table("db.t", schema=SCHEMA, primary_keys=keys, options={"bucket": "2"} | options)
    table.write(rows_of((1, 10, "a"), (2, 20, "b"), (3, None, None)))
    return table


def rows_of(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def content(table: Table) -> list[Row]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


def test_an_update_sets_plain_values_and_expressions_over_the_old_row(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    assert table.update({"v": pl.col("v") * 2, "name": "x"}, where="v >= 20") is not None
    assert table.update({"name": None}, "k = 1") is not None
    assert table.update({"v": 1}, where="k > 9") is None
    assert content(table) == [(1, 10, None), (2, 40, "x"), (3, None, None)]


def test_an_update_of_a_value_count_table_replaces_every_equal_row(tmp_path: Path) -> None:
    table = table_of(tmp_path, (), **{"write-mode": "change-log"})
    table.write(rows_of((1, 10, "a")))
    table.update({"name": "z"}, where="k = 1")
    assert content(table) == [(1, 10, "z"), (1, 10, "z"), (2, 20, "b"), (3, None, None)]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "names no column"),
        ({"nope": 1}, r"nope.*it has k, v, name"),
        ({"k": 1}, "k of the primary key"),
        (
            {"v": "text"},
            "column 'v': the value 'text' does not fit INT; give one that does, or a polars expression over the row",
        ),
        ({"v": pl.col("nope")}, "an expression of the update of table db.t failed"),
        ({"v": pl.lit(1 << 40)}, "column 'v'"),
    ],
)
def test_values_of_an_update_that_do_not_fit_are_named(
    tmp_path: Path, values: Mapping[str, object], words: str
) -> None:
    table = table_of(tmp_path)
    with pytest.raises(InvalidRequestError, match=words):
        table.update(values)
    assert len(content(table)) == 3


NESTED = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        ("st", pa.struct([("a", pa.int32()), ("b", pa.int32())])),
        ("l", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.int32())]))),
        ("m", pa.map_(pa.string(), pa.struct([("a", pa.int32()), ("b", pa.int32())]))),
        ("n", pa.int32()),
        ("d", pa.date32()),
    ]
)
BA = {"b": 20, "A": 10}
AB = {"a": 10, "b": 20}


def nested_table(folder: Path) -> Table:
    table = Catalog(folder).create_table("db.n", schema=NESTED, primary_keys="k")
    table.write(pa.Table.from_pylist([{"k": 1}], NESTED))
    return table


def nested_row(table: Table) -> tuple[object, ...]:
    (row,) = table.to_arrow(columns=["st", "l", "m"], where="k = 1").to_pylist()
    return tuple(row.values())


def test_fields_of_structs_are_assigned_by_their_names(tmp_path: Path) -> None:
    table = nested_table(tmp_path)
    table.update({"st": BA, "l": [BA, None], "m": {"x": BA}})
    assert nested_row(table) == (AB, [AB, None], [("x", AB)])
    swapped = pl.struct(pl.lit(2, pl.Int32).alias("b"), pl.lit(1, pl.Int32).alias("a"))
    table.update({"st": swapped, "l": pl.concat_list(swapped)})
    assert nested_row(table)[:2] == ({"a": 1, "b": 2}, [{"a": 1, "b": 2}])
    rows = pl.DataFrame({"k": [1], "st": [{"b": 4, "a": 3}]})
    table.merge(rows).when_matched_update_all().execute()
    assert nested_row(table)[0] == {"a": 3, "b": 4}
    table.merge(rows).when_matched_update({"st": pl.col("source").struct.field("st"), "m": [("z", BA)]}).execute()
    assert nested_row(table)[::2] == ({"a": 3, "b": 4}, [("z", AB)])


@pytest.mark.parametrize(
    "values",
    [
        {"st": {"a": 1}},
        {"st": {"a": 1, "b": 2, "c": 3}},
        {"st": {"x": 1, "y": 2}},
        {"l": [{"a": 1}]},
        {"m": {"x": {"a": 1, "c": 2}}},
        {"m": [("x", {"a": 1})]},
        {"st": pl.struct(pl.lit(1, pl.Int32).alias("a"))},
        {"l": pl.concat_list(pl.struct(pl.lit(1, pl.Int32).alias("a"), pl.lit(1, pl.Int32).alias("c")))},
        {"n": 1.7},
        {"d": datetime(2026, 1, 1, 10)},
    ],
)
def test_values_of_which_a_part_would_be_lost_are_refused(tmp_path: Path, values: Mapping[str, object]) -> None:
    table = nested_table(tmp_path)
    (name,) = values
    with pytest.raises(InvalidRequestError, match=name):
        table.update(values)
    with pytest.raises(InvalidRequestError, match=name):
        table.merge(pl.DataFrame({"k": [1]})).when_matched_update(values).execute()
    with pytest.raises(InvalidRequestError, match=name):
        table.merge(pl.DataFrame({"k": [2]})).when_not_matched_insert({"k": 2, **values}).execute()
    with pytest.raises(InvalidRequestError, match="'st'"):
        table.merge(pl.DataFrame({"k": [1], "st": [{"a": 1}]})).when_matched_update_all().execute()
    assert table.to_arrow().to_pylist() == [dict.fromkeys(NESTED.names) | {"k": 1}]


def test_a_merge_updates_inserts_and_deletes_by_its_clauses(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    source = pl.DataFrame({"k": [2, 5], "v": [21, 50]})
    table.merge(source).when_matched_update_all().when_not_matched_insert_all().execute()
    assert content(table) == [(1, 10, "a"), (2, 21, "b"), (3, None, None), (5, 50, None)]

    table.merge(source, on="k").when_matched_delete().when_not_matched_by_source_delete("v >= 10").execute()
    assert content(table) == [(3, None, None)]


def test_the_first_clause_of_a_merge_counts_whose_condition_holds(tmp_path: Path) -> None:
    """Also with columns that the table lacks, which conditions name, as changes of another database have."""
    table = table_of(tmp_path)
    source = pl.DataFrame({"k": [1, 2, 3, 5, 6], "v": [11, 5, None, 50, 60], "op": ["u", "d", "u", "c", "d"]})
    (
        table.merge(source)
        .when_matched_delete("source.op = 'd'")
        .when_matched_update_all("source.v > target.v")
        .when_matched_update({"name": "kept"})
        .when_not_matched_insert_all("source.op <> 'd'")
        .execute()
    )
    assert content(table) == [(1, 11, "a"), (3, None, "kept"), (5, 50, None)]


def test_clauses_of_a_merge_give_values_over_both_rows(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    source = pl.DataFrame({"k": [1, 5], "more": [7, 8]})
    (
        table.merge(source)
        .when_matched_update({"v": pl.sql_expr("target.v + source.more"), "name": "added"})
        .when_not_matched_insert({"k": pl.sql_expr("source.k * 10"), "v": pl.col("source").struct.field("more")})
        .when_not_matched_by_source_update({"v": pl.col("v") * 2}, "v >= 20")
        .when_not_matched_by_source_delete()
        .execute()
    )
    assert content(table) == [(1, 17, "added"), (2, 40, "b"), (50, 8, None)]


def test_several_source_rows_may_match_one_row_where_one_of_them_changes_it_or_all_delete_it(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    source = pl.DataFrame({"k": [1, 1, 2, 2], "v": [5, 15, 0, 0]})
    table.merge(source).when_matched_delete("source.v = 0").when_matched_update_all("source.v > target.v").execute()
    assert content(table) == [(1, 15, "a"), (3, None, None)]


@pytest.mark.parametrize(
    ("where", "values", "words"),
    [
        ("source.nope = 1", None, r"'when matched update' of a merge into table db.t failed: .*nope"),
        ("v = 1", None, "failed: .*v"),
        ("source.v +", None, r"polars cannot parse the condition 'source\.v \+' of a merge"),
        ("source.v + 1", None, "is of type Int32, expected a Boolean"),
        (7, None, "where=7 is not a condition of a merge"),
        (None, {}, "names no column"),
        (None, {"nope": 1}, r"nope.*it has k, v, name"),
        (None, {"k": 1}, "k of the primary key"),
        (None, {"v": "text"}, "column 'v': the value 'text' does not fit INT"),
        (None, {"v": pl.sql_expr("source.nope")}, "failed: .*nope"),
    ],
)
def test_conditions_and_values_of_a_merge_that_do_not_fit_are_named(
    tmp_path: Path, where: str, values: Mapping[str, object] | None, words: str
) -> None:
    table = table_of(tmp_path)
    merge = table.merge(pl.DataFrame({"k": [1], "v": pl.Series([1], dtype=pl.Int32)}))
    with pytest.raises(InvalidRequestError, match=words):
        (merge.when_matched_update_all(where) if values is None else merge.when_matched_update(values, where)).execute()
    assert len(content(table)) == 3


def test_a_null_matches_nothing_in_a_merge(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    source = rows_of((7, None, "n"), (8, 10, "m"))
    table.merge(source, on="v").when_matched_update_all().when_not_matched_insert_all().execute()
    assert content(table) == [(1, 10, "m"), (2, 20, "b"), (3, None, None), (7, None, "n")]


def test_rows_of_a_merge_that_do_not_fit_are_named(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    twice = pl.DataFrame({"k": [1, 1], "v": [1, 2]})
    with pytest.raises(InvalidRequestError, match=r"several rows of the merge match one row of table db.t.*k=1"):
        table.merge(twice).when_matched_update_all().execute()
    with pytest.raises(InvalidRequestError, match=r"lack column\(s\) k, by which"):
        table.merge(pl.DataFrame({"v": [1]})).when_matched_update_all().execute()
    with pytest.raises(InvalidRequestError, match="does nothing: name at least one when_"):
        table.merge(twice).execute()
    with pytest.raises(InvalidRequestError, match="'when matched delete' comes after 'when matched update' without"):
        table.merge(twice).when_matched_update_all().when_matched_delete()
    with pytest.raises(InvalidRequestError, match=r"have column.*nope"):
        table.merge(pl.DataFrame({"k": [1], "nope": [1]})).when_matched_update_all().execute()
    assert len(content(table)) == 3


def test_a_table_whose_rows_nothing_replaces_takes_no_update(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="partial-update"):
        table_of(tmp_path, ("k",), **{"merge-engine": "partial-update"}).update({"v": 1})


def test_an_append_only_table_with_a_log_takes_no_update_and_no_merge(tmp_path: Path) -> None:
    table = table_of(tmp_path, ())
    logged = replace(table.store.schema, options={**table.store.schema.options, "log.system": "kafka"})
    store = replace(table.store, schema=logged)
    with pytest.raises(UnsupportedError, match=r"with a log takes no update: .* would be there twice; use delete"):
        update_plan(store, {"v": 1}, None)
    with pytest.raises(UnsupportedError, match="with a log takes no merge"):
        merge_plan(store, row_source(rows_of((1, 1, "a"))), ["k"], MergeClauses())


def test_an_append_only_table_takes_all_statements_and_keeps_equal_rows_apart(tmp_path: Path) -> None:
    table = table_of(tmp_path, ())
    table.write(rows_of((1, 10, "a"), (4, 40, "d")))
    assert table.update({"v": pl.col("v") + 1, "name": "z"}, "k = 1") is not None
    assert table.delete("k = 2") is not None
    assert content(table) == [(1, 11, "z"), (1, 11, "z"), (3, None, None), (4, 40, "d")]

    source = pl.DataFrame({"k": [1, 9], "v": [5, 90]})
    (
        table.merge(source, on="k")
        .when_matched_update({"v": pl.sql_expr("target.v * source.v")})
        .when_not_matched_insert_all()
        .when_not_matched_by_source_update({"name": "alone"}, "v IS NULL")
        .when_not_matched_by_source_delete()
        .execute()
    )
    assert content(table) == [(1, 55, "z"), (1, 55, "z"), (3, None, "alone"), (9, 90, None)]
    with pytest.raises(InvalidRequestError, match="several rows of the merge match one row"):
        table.merge(rows_of((9, 1, "x"), (9, 2, "y")), on="k").when_matched_update_all().execute()
    with pytest.raises(InvalidRequestError, match="name the columns that match rows with on="):
        table.merge(source)


def test_a_truncate_leaves_no_row(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    assert table.truncate() is not None
    assert content(table) == []
    assert len(table.to_arrow(snapshot_id=1)) == 3


@pytest.mark.parametrize("producer", ["none", "lookup"])
@pytest.mark.parametrize("is_based", [False, True])
def test_statements_change_rows_that_wait_for_a_compaction_of_a_table_with_deletion_vectors(
    tmp_path: Path, producer: str, is_based: bool
) -> None:
    options = {"deletion-vectors.enabled": "true", "changelog-producer": producer, "write-only": "true"}
    table = table_of(tmp_path, ("k",), **options)
    if is_based:
        table.compact(full=True)
    table.write(rows_of((1, 11, "a"), (2, 21, "b"), (3, 31, "c")))  # no read shows these before a compaction

    assert table.delete("v = 11") is not None
    assert table.update({"v": 22}, "v = 21") is not None
    assert table.delete("v < 21") is None  # such rows were overwritten
    assert table.merge(rows_of((3, 0, "x"), (4, 40, "d"))).when_not_matched_insert_all().execute() is not None

    table.compact(full=True)
    assert content(table) == [(2, 22, "b"), (3, 31, "c"), (4, 40, "d")]

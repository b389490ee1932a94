"""Files that DuckDB reads itself although younger files replace their rows give the rows that a merge gives."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.filestore.formats.blocks.shared_input import SharedFile
from lakelog.filestore.read.duckdb import oldest_runs, own_files
from lakelog.filestore.read.duckdb.own_files import OwnFiles
from tests.support.examples import examples

DDL = "part STRING NOT NULL, id BIGINT NOT NULL, name STRING NOT NULL, n INT, v STRING"
DEDUPLICATE: dict[str, dict[str, str]] = {
    "one bucket": {"bucket": "1"},
    "two buckets": {"bucket": "2"},
    "dynamic buckets": {"bucket": "-1"},
    "lookup": {"bucket": "1", "changelog-producer": "lookup"},
}
OTHERS: dict[str, dict[str, str]] = {
    "sequence": {"bucket": "1", "sequence.field": "n"},
    "partial update": {"bucket": "1", "merge-engine": "partial-update", "ignore-delete": "true"},
    "first row": {"bucket": "1", "merge-engine": "first-row", "ignore-delete": "true"},
    "ignored deletes": {"bucket": "1", "ignore-delete": "true"},
    "deletion vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "aggregation": {"bucket": "1", "merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
}


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the files that DuckDB opened itself, of however few rows."""
    found: list[int] = []
    real = OwnFiles.opened

    def counted(files: OwnFiles, number: int) -> SharedFile:
        found.append(number)
        return real(files, number)

    monkeypatch.setattr(own_files, "_ROWS_MIN", 1)
    monkeypatch.setattr(oldest_runs, "_YOUNG_MAX", 0)  # however many younger rows there are
    monkeypatch.setattr(OwnFiles, "opened", counted)
    return found


def some_rows(chance: random.Random, table: Table) -> pa.Table:
    keys = {
        (chance.choice("ab"), chance.randint(0, 20), chance.choice(["x", "y", "ä"]))
        for _ in range(chance.randint(1, 25))
    }
    made = [
        (*key, chance.choice([None, chance.randint(-5, 5)]), chance.choice([None, "", "v" * chance.randint(1, 5)]))
        for key in sorted(keys)
    ]
    return pa.Table.from_pylist(
        [dict(zip(table.schema.field_names, row, strict=True)) for row in made], schema=table.schema.arrow_schema
    )


def rows_in(relation: duckdb.DuckDBPyRelation) -> list[tuple[object, ...]]:
    return sorted(relation.fetchall(), key=repr)


def check_history(folder: Path, options: dict[str, str], seed: int) -> None:
    chance = random.Random(seed)
    keys = chance.choice([["part", "id"], ["part", "id", "name"]])
    table = Catalog(folder).create_table(
        f"db.t{seed}",
        schema=DDL,
        primary_keys=keys,
        partition_keys=chance.choice([[], ["part"]]),
        options={"write-only": "true", **options},
    )
    table.write(some_rows(chance, table))
    table.compact(full=True)
    for _ in range(chance.randint(2, 6)):
        step = chance.randrange(4)
        if step == 0 and options.get("ignore-delete") is None and "aggregation" not in options.values():
            table.delete(f"id < {chance.randint(0, 6)}")
        elif step == 1:
            table.compact(full=chance.random() < 0.5)
        else:
            table.write(some_rows(chance, table))
        truth, lake = duckdb.from_arrow(table.to_arrow()), table.to_duckdb()
        assert rows_in(lake) == rows_in(truth), seed
        for where in ("id = 3", "n > 0", "v IS NULL", "name = 'ä' AND n < 3", "part = 'a' AND id > 10"):
            assert rows_in(lake.filter(where)) == rows_in(truth.filter(where)), (seed, where)
        assert rows_in(lake.aggregate("count(*), sum(n)")) == rows_in(truth.aggregate("count(*), sum(n)")), seed
        chosen = "n, v" if chance.random() < 0.5 else "v, id"
        assert rows_in(lake.project(chosen)) == rows_in(truth.project(chosen)), seed


@pytest.mark.parametrize("kind", DEDUPLICATE)
def test_rows_are_those_of_a_merge(tmp_path: Path, opened: list[int], kind: str) -> None:
    for seed in range(examples(8)):
        check_history(tmp_path, DEDUPLICATE[kind], seed)
    assert opened


@pytest.mark.parametrize("kind", OTHERS)
def test_rows_of_tables_that_keep_other_rows_are_those_of_a_merge(tmp_path: Path, kind: str) -> None:
    for seed in range(examples(6)):
        check_history(tmp_path, OTHERS[kind], seed)


def test_the_oldest_run_is_read_by_duckdb_and_the_younger_rows_are_not_merged_with_it(
    tmp_path: Path, opened: list[int]
) -> None:
    table = Catalog(tmp_path).create_table(
        "db.t", schema="id BIGINT NOT NULL, n INT", primary_keys="id", options={"bucket": "1", "write-only": "true"}
    )
    table.write(pa.table({"id": range(1000), "n": pa.array(range(1000), pa.int32())}))
    table.compact(full=True)
    table.write(pa.table({"id": [5, 2000], "n": pa.array([-1, -2], pa.int32())}))
    table.delete("id = 6")
    found = table.to_duckdb().filter("id IN (5, 6, 7, 2000)").order("id").fetchall()
    assert found == [(5, -1), (7, 7), (2000, -2)]
    assert opened
    assert table.to_duckdb().aggregate("count(*)").fetchall() == [(1000,)]
    # Without the key among the columns nothing says which rows are replaced.
    opened.clear()
    assert sorted(table.to_duckdb(columns=["n"]).filter("n < 0").fetchall()) == [(-2,), (-1,)]
    assert not opened

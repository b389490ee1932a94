"""What delta-rs, pypaimon and DuckLake are asked to do, in an environment of their own: commits of few rows.

    python small_commit_peers.py <name> <folder for the table> <commits> <rows of a commit>

The names are those of `PEERS`. It prints the seconds of each commit, and the rows of the table at the end, as JSON. It
knows nothing of lakelog.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any  # Any: the peers, which only the other environments have

import pyarrow as pa

KEY = "id"
WARM = 5  # commits that are not measured
SCHEMA = pa.schema(
    [pa.field(KEY, pa.int64(), nullable=False), pa.field("amount", pa.int64()), pa.field("word", pa.string())]
)
Write = Callable[[pa.Table], object]
Count = Callable[[], int]


def batch(number: int, rows: int) -> pa.Table:
    """The rows of a commit: half of their keys are those of the commit before."""
    ids = [number * rows // 2 + at for at in range(rows)]
    return pa.table([ids, [number] * rows, [f"word {one} of {number}" for one in ids]], schema=SCHEMA)


def keys_after(commits: int, rows: int) -> int:
    """The number of different keys in so many commits."""
    return commits * rows // 2 + rows - rows // 2


def delta(folder: str, *, is_keyed: bool) -> tuple[Write, Count]:
    """delta-rs: appends, or MERGE on the key, by a handle that is kept."""
    deltalake: Any = import_module("deltalake")
    deltalake.write_deltalake(folder, SCHEMA.empty_table())
    table = deltalake.DeltaTable(folder)

    def append(rows: pa.Table) -> None:
        deltalake.write_deltalake(table, rows, mode="append")

    def merge(rows: pa.Table) -> None:
        one = table.merge(rows, predicate=f"s.{KEY} = t.{KEY}", source_alias="s", target_alias="t")
        one.when_matched_update_all().when_not_matched_insert_all().execute()

    return merge if is_keyed else append, lambda: int(deltalake.DeltaTable(folder).to_pyarrow_table().num_rows)


def paimon(folder: str, *, is_keyed: bool) -> tuple[Write, Count]:
    """pypaimon: batch commits to a table with one bucket, or to an append table."""
    pypaimon: Any = import_module("pypaimon")
    catalog = pypaimon.CatalogFactory.create({"warehouse": folder})
    catalog.create_database("db", True)
    given = {"primary_keys": [KEY], "options": {"bucket": "1"}} if is_keyed else {}
    catalog.create_table("db.t", pypaimon.Schema.from_pyarrow_schema(SCHEMA, **given), False)
    table = catalog.get_table("db.t")

    def write(rows: pa.Table) -> None:
        builder = table.new_batch_write_builder()
        writer, commit = builder.new_write(), builder.new_commit()
        writer.write_arrow(rows)
        commit.commit(writer.prepare_commit())
        writer.close()
        commit.close()

    def rows() -> int:
        builder = table.new_read_builder()
        return int(builder.new_read().to_arrow(builder.new_scan().plan().splits()).num_rows)

    return write, rows


def ducklake(folder: str, *, is_keyed: bool, inlined_rows: int) -> tuple[Write, Count]:
    """DuckLake with a catalog in a DuckDB file: INSERT, or MERGE on the key; `inlined_rows` stay in the catalog."""
    duckdb: Any = import_module("duckdb")
    (extension,) = Path(str(import_module("duckdb_extension_ducklake").__file__)).parent.rglob("*.duckdb_extension")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    connection.execute(
        f"ATTACH 'ducklake:{folder}/catalog.ducklake' AS lake "
        f"(DATA_PATH '{folder}/data', DATA_INLINING_ROW_LIMIT {inlined_rows})"
    )
    connection.execute(f"CREATE TABLE lake.t ({KEY} BIGINT NOT NULL, amount BIGINT, word VARCHAR)")

    def write(rows: pa.Table) -> None:
        connection.register("rows", rows)
        connection.execute(
            f"MERGE INTO lake.t USING rows USING ({KEY}) WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT"
            if is_keyed
            else "INSERT INTO lake.t SELECT * FROM rows"
        )
        connection.unregister("rows")

    return write, lambda: int(connection.execute("SELECT count(*) FROM lake.t").fetchone()[0])


PEERS: dict[str, tuple[str, Callable[[str], tuple[Write, Count]]]] = {
    "delta_append": ("deltalake", lambda folder: delta(folder, is_keyed=False)),
    "delta_merge": ("deltalake", lambda folder: delta(folder, is_keyed=True)),
    "pypaimon_append": ("pypaimon", lambda folder: paimon(folder, is_keyed=False)),
    "pypaimon_keyed": ("pypaimon", lambda folder: paimon(folder, is_keyed=True)),
    "ducklake_append": ("ducklake", lambda folder: ducklake(folder, is_keyed=False, inlined_rows=0)),
    "ducklake_merge": ("ducklake", lambda folder: ducklake(folder, is_keyed=True, inlined_rows=0)),
    "ducklake_inlined": ("ducklake", lambda folder: ducklake(folder, is_keyed=False, inlined_rows=100)),
}
KEYED = frozenset({"delta_merge", "pypaimon_keyed", "ducklake_merge"})


def seconds_of(write: Write, commits: int, rows: int) -> list[float]:
    """The seconds of each commit, after some that are not measured."""
    seconds = []
    for number in range(WARM + commits):
        given = batch(number, rows)
        started = time.perf_counter()
        write(given)
        seconds.append(time.perf_counter() - started)
    return seconds[WARM:]


def main(arguments: Sequence[str]) -> None:
    """Run one peer and print its figures."""
    name, folder, commits, rows = arguments[0], arguments[1], int(arguments[2]), int(arguments[3])
    write, count = PEERS[name][1](folder)
    seconds = seconds_of(write, commits, rows)
    print(json.dumps({"seconds": seconds, "rows": count()}), flush=True)
    os._exit(0)  # at its end Arrow's threads abort the process now and then ("terminate called ...")


if __name__ == "__main__":
    main(sys.argv[1:])

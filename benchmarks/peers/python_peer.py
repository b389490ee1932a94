"""What pypaimon and delta-rs are asked to do without Spark, in an environment of their own: upserts, scans, lookups.

    python python_peer.py <pypaimon|deltalake> <folder of the data> <folder for the table> <keys, with commas>

The data are Parquet files in `base` and `batches`. It prints the seconds of each step, those of processor time, and
what the steps have found, as JSON. It knows nothing of lakelog.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any  # Any: the peers, which only the other environments have

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

KEY = "id"
BUCKETS = "4"


class Paimon:
    """pypaimon: a primary key table, written by batch commits."""

    def __init__(self, folder: str, schema: pa.Schema) -> None:
        pypaimon: Any = import_module("pypaimon")
        catalog = pypaimon.CatalogFactory.create({"warehouse": folder})
        catalog.create_database("db", True)
        made = pypaimon.Schema.from_pyarrow_schema(schema, primary_keys=[KEY], options={"bucket": BUCKETS})
        catalog.create_table("db.t", made, False)
        self._table = catalog.get_table("db.t")

    def upsert(self, rows: pa.Table) -> None:
        """Write rows and commit them."""
        builder = self._table.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(rows)
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()

    def read(self) -> pa.Table:
        """Read all rows."""
        builder = self._table.new_read_builder()
        return builder.new_read().to_arrow(builder.new_scan().plan().splits())

    def look_up(self, key: int) -> pa.Table:
        """Read the row of a key."""
        builder = self._table.new_read_builder()
        builder = builder.with_filter(builder.new_predicate_builder().equal(KEY, key))
        return builder.new_read().to_arrow(builder.new_scan().plan().splits())

    def changes(self) -> pa.Table | None:
        """Nothing: it reads no changes."""
        return None


class Delta:
    """delta-rs: MERGE on the key."""

    def __init__(self, folder: str, schema: pa.Schema) -> None:
        self._deltalake: Any = import_module("deltalake")
        self._path = f"{folder}/t"
        self._schema = schema
        feed = {"delta.enableChangeDataFeed": "true"}
        self._deltalake.write_deltalake(self._path, schema.empty_table(), configuration=feed)
        self._is_empty = True

    def upsert(self, rows: pa.Table) -> None:
        """Merge rows into the table; the first are appended."""
        if self._is_empty:
            self._deltalake.write_deltalake(self._path, rows, mode="append")
            return
        merge = self._deltalake.DeltaTable(self._path).merge(
            rows, predicate=f"s.{KEY} = t.{KEY}", source_alias="s", target_alias="t"
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def loaded(self) -> None:
        """The base is there: from here on rows are merged."""
        self._is_empty = False

    def read(self) -> pa.Table:
        """Read all rows."""
        return self._deltalake.DeltaTable(self._path).to_pyarrow_table()

    def look_up(self, key: int) -> pa.Table:
        """Read the row of a key."""
        return self._deltalake.DeltaTable(self._path).to_pyarrow_table(filters=[(KEY, "=", key)])

    def changes(self) -> pa.Table | None:
        """The rows that the last commit has inserted or updated, as they are now."""
        table = self._deltalake.DeltaTable(self._path)
        rows = pa.table(table.load_cdf(starting_version=table.version()))
        kinds = pc.cast(rows.column("_change_type"), pa.string())
        shown = rows.select([KEY, "amount"])  # Arrow filters no string views, as which the others come
        return shown.filter(pc.is_in(kinds, pa.array(["insert", "update_postimage"])))


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """The seconds that it takes, and the processor time of all threads."""
    started, cpu = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - started, time.process_time() - cpu


def answer_of(rows: pa.Table) -> list[int]:
    """How many rows there are, and the sum of their amounts."""
    return [rows.num_rows, pc.sum(rows.column("amount")).as_py()]


def main(arguments: Sequence[str]) -> None:
    """Run one peer and print its figures."""
    name, data, folder, keys = arguments
    base = [pq.read_table(path) for path in sorted(Path(data, "base").glob("*.parquet"))]
    updates = [pq.read_table(path) for path in sorted(Path(data, "batches").glob("*.parquet"))]
    peer: Any = (Paimon if name == "pypaimon" else Delta)(folder, base[0].schema)
    for rows in base:
        peer.upsert(rows)
    if isinstance(peer, Delta):
        peer.loaded()
    found: dict[str, Any] = {}
    found["upsert_s"], found["upsert_cpu_s"] = timed(lambda: [peer.upsert(rows) for rows in updates])
    read: list[pa.Table] = []
    found["scan_s"], found["scan_cpu_s"] = timed(lambda: read.append(peer.read()))
    answers: dict[str, Any] = {"scan": answer_of(read[0])}
    found["lookup_s"] = median(timed(partial(peer.look_up, int(key)))[0] for key in keys.split(","))
    answers["lookup"] = [answer_of(peer.look_up(int(key)))[::-1] for key in keys.split(",")]
    changes: list[pa.Table | None] = []
    changes_s, _ = timed(lambda: changes.append(peer.changes()))
    if changes[0] is not None:
        found["changes_s"], answers["changes"] = changes_s, answer_of(changes[0])
    print(json.dumps({**found, "answers": answers}), flush=True)
    os._exit(0)  # at its end Arrow's threads abort the process now and then ("terminate called ...")


if __name__ == "__main__":
    main(sys.argv[1:])

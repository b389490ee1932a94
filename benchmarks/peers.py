"""What pypaimon and delta-rs are asked to do, in an environment of their own: load rows, upsert batches, read them.

    python peers.py <pypaimon|deltalake> <folder of the data> <folder for the table> <batches>

The data are the Parquet files of `benchmarks/upsert_data.py`. It prints the seconds of the upserts and of reading all
rows, and how many they are, as JSON. It knows nothing of lakelog.
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

import numpy as np
import pyarrow as pa
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

    def count(self) -> int:
        """Read all rows."""
        builder = self._table.new_read_builder()
        splits = builder.new_scan().plan().splits()
        return int(builder.new_read().to_arrow(splits).num_rows)


class Delta:
    """delta-rs: MERGE on the key."""

    def __init__(self, folder: str, schema: pa.Schema) -> None:
        self._deltalake: Any = import_module("deltalake")
        self._path = f"{folder}/t"
        self._schema = schema
        self._deltalake.write_deltalake(self._path, schema.empty_table())
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

    def count(self) -> int:
        """Read all rows."""
        return int(self._deltalake.DeltaTable(self._path).to_pyarrow_table().num_rows)


def last_of_each_key(rows: pa.Table) -> pa.Table:
    """What MERGE needs: a source without a key twice. Not measured."""
    keys = rows.column(KEY).to_numpy()[::-1]
    _, firsts = np.unique(keys, return_index=True)
    return rows.take(np.sort(len(keys) - 1 - firsts))


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """The seconds that it takes, and the processor time of all threads."""
    started, cpu = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - started, time.process_time() - cpu


def main(arguments: Sequence[str]) -> None:
    """Run one peer and print its figures."""
    name, data, folder, batches = arguments
    base = [pq.read_table(path) for path in sorted(Path(data, "base").glob("*.parquet"))]
    files = sorted(Path(data, "batches").glob("*.parquet"))[: int(batches)]
    updates = [last_of_each_key(pq.read_table(path)) for path in files]
    peer: Any = (Paimon if name == "pypaimon" else Delta)(folder, base[0].schema)
    for rows in base:
        peer.upsert(rows)
    if isinstance(peer, Delta):
        peer.loaded()
    upsert_s, upsert_cpu_s = timed(lambda: [peer.upsert(rows) for rows in updates])
    counts: list[int] = []
    read_s, read_cpu_s = timed(lambda: counts.append(peer.count()))
    found = {"upsert_s": upsert_s, "upsert_cpu_s": upsert_cpu_s, "read_s": read_s, "read_cpu_s": read_cpu_s}
    print(json.dumps(found | {"rows": counts[0]}), flush=True)
    os._exit(0)  # at its end Arrow's threads abort the process now and then ("terminate called ...")


if __name__ == "__main__":
    main(sys.argv[1:])

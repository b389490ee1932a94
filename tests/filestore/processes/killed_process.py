"""What a process does until it is killed: write, overwrite, compact and expire, and note what was acknowledged."""

from __future__ import annotations

import json
import os
import random

import pyarrow as pa

from lakelog.common.types import RowKind
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("batch", pa.int64())])
KEYS = 12
KEPT = Retention(count_min=2, count_max=3, age_millis=3_600_000, limit=100)
OPTIONS = {"num-sorted-run.compaction-trigger": "3", "manifest.merge-min-count": "3", "compaction.min.file-num": "3"}


def schema_of(*, has_key: bool) -> TableSchema:
    """The table: two buckets, with a key or without."""
    keys = ["id"] if has_key else []
    bucket = {"bucket": "2"} if has_key else {"bucket": "-1"}
    return build_schema(SCHEMA, primary_keys=keys, options={**OPTIONS, **bucket})


def rows_of(given: list[list[int]]) -> pa.Table:
    """Rows as the table takes them."""
    return pa.table([pa.array([row[column] for row in given], pa.int64()) for column in (0, 1)], schema=SCHEMA)


def main(path: str, notes: str, life_text: str) -> None:
    """Work until the end. Each step is noted before it begins and when it was acknowledged."""
    table = FileStoreTable.open(path, LocalFileIO(sync_data=False))
    descriptor = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    life = int(life_text)
    rng = random.Random(life)
    has_key = bool(table.schema.primary_keys)
    step = 0
    while True:
        step += 1
        what = rng.choices(("write", "overwrite", "compact", "expire"), (6, 1, 2, 2))[0]
        tag = life * 10_000 + step
        ids = [rng.randrange(KEYS) if has_key else tag * 10 + place for place in range(rng.randint(1, 4))]
        rows = [[one, tag] for one in ids]
        kinds = [
            int(RowKind.DELETE if has_key and what == "write" and rng.random() < 0.2 else RowKind.INSERT) for _ in rows
        ]
        note = {"step": step, "what": what, "rows": rows, "kinds": kinds}
        os.write(descriptor, (json.dumps(note) + "\n").encode())
        if what == "compact":
            table.compact(full=rng.random() < 0.5)
        elif what == "expire":
            expire_snapshots(table, retention=KEPT)
        else:
            mode = "append" if what == "write" else "overwrite"
            table.write(rows_of(rows), mode=mode, kinds=pa.array(kinds, pa.int8()))  # type: ignore[arg-type]  # of two
        os.write(descriptor, (json.dumps({"step": step, "done": True}) + "\n").encode())

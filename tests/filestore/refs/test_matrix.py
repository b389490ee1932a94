"""Each way to name a state shows its rows, for each kind of table, before and after the others have expired."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any  # Any: keywords of reads

import pyarrow as pa
import pytest

from lakelog.common.errors import NotFoundError
from lakelog.filestore.alter.schema_changes import AddColumn
from lakelog.filestore.expire.retention import Retention
from lakelog.filestore.refs.tags import write_tag
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from tests.support.small_tables import UNSYNCED

HOUR = 3_600_000
START = 1_770_000_000_000
ONE = Retention(count_min=1, count_max=1, age_millis=0, limit=100)
SCHEMA = pa.schema(
    [pa.field("day", pa.int32(), nullable=False), pa.field("id", pa.int64(), nullable=False), ("v", pa.int32())]
)
Rows = Counter[tuple[int, int, int]]


@dataclass(frozen=True)
class Kind:
    keys: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    is_evolved: bool = False
    is_compacted: bool = False


KINDS = {
    "keyed": Kind(("day", "id"), options=(("bucket", "2"),)),
    "partitioned": Kind(("day", "id"), ("day",), (("bucket", "1"),)),
    "append": Kind(),
    "evolved": Kind(("day", "id"), options=(("bucket", "2"),), is_evolved=True),
    "deletion vectors": Kind(
        ("day", "id"), options=(("bucket", "1"), ("deletion-vectors.enabled", "true")), is_compacted=True
    ),
}
WAYS: dict[str, dict[str, Any]] = {
    "snapshot": {},
    "tag": {"tag": "kept"},
    "timestamp": {"timestamp": START + 3 * HOUR},
    "watermark": {"watermark": 30},
    "version of a tag": {"version": "kept"},
    "branch": {"branch": "side"},
    "branch.tag": {"version": "side.fork"},
    "tag of a branch": {"branch": "side", "tag": "fork"},
}


class Filled:
    """Five states, each an hour and a watermark of 10 after the one before; the third has a tag and a branch."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        schema = build_schema(
            SCHEMA,
            primary_keys=kind.keys,
            partition_keys=kind.partitions,
            options={"write-only": "true", **dict(kind.options)},
        )
        self.kind = kind
        self.table = FileStoreTable.create(f"{folder}/t", schema, UNSYNCED)
        self.states: list[Rows] = [Counter()]
        self.side: Rows = Counter()
        self.ids = [0]
        for number in range(1, 6):
            if kind.is_evolved and number == 4:
                self.table = self.table.alter(AddColumn("late", "INT"))
            self.states.append(self.written(self.table, self.states[-1], number))
            newest = self.table.snapshots.latest_id() or 0
            for snapshot_id in range(self.ids[-1] + 1, newest + 1):
                mark = 10 * (number - (snapshot_id < newest))  # deletion vectors show rows with the compaction
                made = dataclasses.replace(
                    self.table.snapshots.get(snapshot_id), time_millis=START + number * HOUR, watermark=mark
                )
                UNSYNCED.write_bytes(self.table.paths.snapshot(snapshot_id), made.to_json().encode())
            self.ids.append(made.id)
            if number == 3:
                write_tag(self.table, "kept", self.table.snapshots.get(made.id))
                self.table.create_branch("side", tag="kept")
                branch = self.table.on_branch("side")
                fork = branch.snapshots.latest()
                assert fork is not None
                write_tag(branch, "fork", fork)
                self.side = self.written(branch, self.states[3], 9)

    def written(self, table: FileStoreTable, before: Rows, number: int) -> Rows:
        """One row more, and with a key one row again; the rows after it."""
        new = [(number % 2, number, number), (1, 1, number)] if self.kind.keys else [(number % 2, number, number)]
        columns = {name: [row[at] for row in dict.fromkeys(new)] for at, name in enumerate(SCHEMA.names)}
        if number != 1:
            table.write(pa.table(columns, schema=SCHEMA))
        else:
            table.write(pa.table({name: values[:1] for name, values in columns.items()}, schema=SCHEMA))
        if self.kind.is_compacted:
            table.compact(full=True)
        replaced = {row[:2] for row in new} if self.kind.keys else set()
        return Counter({row: count for row, count in before.items() if row[:2] not in replaced}) + Counter(set(new))

    def shown(self, **which: Any) -> Rows:
        rows = self.table.to_arrow(columns=["day", "id", "v"], **which).to_pylist()
        polars = self.table.to_polars(columns=["day", "id", "v"], **which).collect()
        found = Counter(tuple(row.values()) for row in rows)
        assert found == Counter(polars.rows())
        assert self.table.count(**which) == found.total()
        return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_expired", [False, True], ids=["living", "expired"])
def test_a_state_is_shown(tmp_path: Path, kind: str, way: str, *, is_expired: bool) -> None:
    filled = Filled(tmp_path, KINDS[kind])
    if is_expired:
        filled.table.expire_snapshots(retention=ONE, now_millis=START + 100 * HOUR)
        filled.table.on_branch("side").expire_snapshots(retention=ONE, now_millis=START + 100 * HOUR)
    which = WAYS[way] or {"snapshot_id": filled.ids[3]}
    if way == "snapshot" and is_expired:
        with pytest.raises(NotFoundError, match="snapshot"):
            filled.shown(**which)
    elif way == "branch":
        assert filled.shown(**which) == filled.side
    else:
        assert filled.shown(**which) == filled.states[3]
    assert filled.shown() == filled.states[5]

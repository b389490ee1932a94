"""A table of each kind with five states, of which the third has a tag and a branch, and the ways to name that state."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any  # Any: keywords of reads

import pyarrow as pa

from lakelog.filestore.alter.schema_changes import AddColumn
from lakelog.filestore.expire.retention_rules import Retention
from lakelog.filestore.refs import create_branch
from lakelog.filestore.refs.tags.tags import write_tag
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import count_rows, expire_snapshots, to_polars
from tests.support.tables.altered import altered
from tests.support.tables.small_tables import UNSYNCED

HOUR = 3_600_000
START = 1_770_000_000_000
ONE = Retention(count_min=1, count_max=1, age_millis=0, limit=100)
SCHEMA = pa.schema(
    [pa.field("day", pa.int32(), nullable=False), pa.field("id", pa.int64(), nullable=False), ("v", pa.int32())]
)
Row = tuple[int, int, int]
Rows = Counter[Row]


@dataclass(frozen=True)
class Kind:
    keys: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    is_evolved: bool = False
    is_compacted: bool = False


KEYED = Kind(("day", "id"), options=(("bucket", "2"),))
KINDS = {
    "keyed": KEYED,
    "partitioned": Kind(("day", "id"), ("day",), (("bucket", "1"),)),
    "append": Kind(),
    "evolved": dataclasses.replace(KEYED, is_evolved=True),
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
    """Five states, each an hour and a watermark of 10 after the one before; the third has a tag and a branch.

    `states` are the rows after each of the `numbers` that were written, the first without any; `side_states` and
    `side_numbers` are those of the branch, which begins with the third state.
    """

    def __init__(self, folder: Path, kind: Kind) -> None:
        self.kind = kind
        self.table = self.created(folder)
        self.states: list[Rows] = [Counter()]
        self.numbers: list[int] = []
        self.side_states: list[Rows] = []
        self.side_numbers: list[int] = []
        self.ids = [0]
        for number in range(1, 6):
            if kind.is_evolved and number == 4:
                self.table = altered(self.table, AddColumn("late", "INT"))
            self.write(number)
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
                create_branch(self.table, "side", tag="kept")
                fork = self.branch.snapshots.latest()
                assert fork is not None
                write_tag(self.branch, "fork", fork)
                self.side_states = [self.states[3]]
                self.write_side(9)

    def created(self, folder: Path) -> FileStoreTable:
        """The table, without a snapshot."""
        schema = build_schema(
            SCHEMA,
            primary_keys=self.kind.keys,
            partition_keys=self.kind.partitions,
            options={"write-only": "true", **dict(self.kind.options)},
        )
        return FileStoreTable.create(f"{folder}/t", schema, UNSYNCED)

    @property
    def branch(self) -> FileStoreTable:
        """The branch, as it is now."""
        return self.table.on_branch("side")

    def written_as(self, number: int) -> list[Row]:
        """The rows of a number: one more, and with a key one row again."""
        new = [(number % 2, number, number), (1, 1, number)] if self.kind.keys else [(number % 2, number, number)]
        return list(dict.fromkeys(new))

    def write(self, number: int) -> None:
        """Write the rows of a number into the table."""
        self.put(self.table, number)
        self.numbers.append(number)
        self.states.append(self.after(self.states[-1], number))

    def write_side(self, number: int) -> None:
        """Write the rows of a number into the branch."""
        self.put(self.branch, number)
        self.side_numbers.append(number)
        self.side_states.append(self.after(self.side_states[-1], number))

    def put(self, table: FileStoreTable, number: int) -> None:
        """Commit the rows of a number."""
        table.write(rows_of(self.written_as(number)))
        if self.kind.is_compacted:
            table.compact(full=True)

    def after(self, before: Rows, number: int) -> Rows:
        """The rows after a number."""
        new = self.written_as(number)
        replaced = {row[:2] for row in new} if self.kind.keys else set()
        return Counter({row: count for row, count in before.items() if row[:2] not in replaced}) + Counter(new)

    def expire(self) -> None:
        """Leave the newest snapshot of the table and of the branch."""
        for line in (self.table, self.branch):
            expire_snapshots(line, retention=ONE, now_millis=START + 100 * HOUR)

    def named(self, way: str) -> dict[str, Any]:
        """The keywords that name the third state, or the branch."""
        return WAYS[way] or {"snapshot_id": self.ids[3]}

    def shown(self, **which: Any) -> Rows:
        """The rows of a batch read, by Arrow, polars and count."""
        rows = self.table.to_arrow(columns=["day", "id", "v"], **which).to_pylist()
        polars = to_polars(self.table, columns=["day", "id", "v"], **which).collect()
        found = Counter(tuple(row.values()) for row in rows)
        assert found == Counter(polars.rows())
        assert count_rows(self.table, **which) == found.total()
        return found


def rows_of(rows: list[Row]) -> pa.Table:
    """Rows as a table."""
    columns = {name: [row[at] for row in rows] for at, name in enumerate(SCHEMA.names)}
    return pa.table(columns, schema=SCHEMA)

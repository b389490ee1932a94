"""What a wrong snapshot has reached: the snapshots made from it, the last clean one of each table, and the way back.

A table holds tainted rows from its first tainted batch on, until it is restored to a clean snapshot, truncated or
overwritten, or until a user declares it mended; a branch holds them from its beginning, if its table did then. If it is
no longer known what a stream has read before, it is taken to have read everything. For how taint spreads, see
`lakelog.lineage.answers.taint_spread`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lakelog.common.errors import LakelogError, NotFoundError
from lakelog.filestore.io import warehouse_of
from lakelog.filestore.metadata.manifests import FileKind
from lakelog.filestore.metadata.origins import LineKey, TableVersion, WrongSnapshot
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.schema import line_name
from lakelog.lineage.answers.questions import lineage_graph
from lakelog.lineage.answers.taint_spread import ANYWHERE, Held, Spread
from lakelog.lineage.lines.line_graph import FoundLines, read_line, with_earlier_steps
from lakelog.lineage.lines.line_history import LineHistories
from lakelog.lineage.lines.line_nodes import LineNodes
from lakelog.lineage.lines.lines import Line, Step
from lakelog.lineage.tables.beginnings import asked_line
from lakelog.lineage.tables.edge_arrays import EdgeArrays
from lakelog.lineage.tables.found_tables import line_key, note_unreadable
from lakelog.warehouse.warehouse import Warehouse

SNAPSHOTS_SCHEMA = pa.schema(
    [
        pa.field("table", pa.string(), nullable=False),
        pa.field("uuid", pa.string(), nullable=False),
        pa.field("branch", pa.string()),
        pa.field("snapshot_id", pa.int64(), nullable=False),
        pa.field("commit", pa.string()),
        pa.field("time", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("jobs", pa.list_(pa.string()), nullable=False),
        pa.field("is_living", pa.bool_(), nullable=False),
    ]
)
TABLES_SCHEMA = pa.schema(
    [
        pa.field("table", pa.string(), nullable=False),
        pa.field("uuid", pa.string(), nullable=False),
        pa.field("branch", pa.string()),
        pa.field("first_tainted", pa.int64(), nullable=False),
        ("last_clean", pa.int64()),
        pa.field("holds_tainted_rows", pa.bool_(), nullable=False),
        ("command", pa.string()),
        ("why", pa.string()),
    ]
)


_SAID = "once it holds no wrong rows any more, `lakelog lineage mended` says so"


@dataclass(frozen=True, kw_only=True)
class Tainted:
    """What a wrong snapshot has reached; the table of the wrong snapshot comes first.

    `snapshots` has a row for the wrong snapshot and for each one that a tainted batch was written to, with the jobs
    that wrote it. `tables` has one row per table: its first tainted snapshot, the newest living clean one before it,
    whether the newest snapshot still holds tainted rows, and if so the `command` that restores the clean one; `why`
    says why there is none. Streams that write a restored table continue after what they have read: run them with new
    checkpoints, or restore with `--rewind-writers` and set their checkpoints back too.
    """

    snapshots: pa.Table
    tables: pa.Table

    @property
    def commands(self) -> list[str]:
        """The commands that restore all tables that hold tainted rows, sources first."""
        return [command for command in self.tables["command"].to_pylist() if command is not None]


def tainted(
    catalog: Warehouse,
    table: str,
    snapshot_id: int,
    *,
    commit: str | None = None,
    catalogs: Sequence[Warehouse] = (),
    graph: EdgeArrays | None = None,
) -> Tainted:
    """What the wrong rows of a snapshot have reached, at any depth, in this catalog and in `catalogs`.

    Reads the living snapshots of all downstream tables; what has expired or was rolled back is known from the system
    tables. `commit` distinguishes snapshots whose number was reused: by default it is the living one. `graph` is the
    `lineage_graph` of the same catalogs, for several questions. Raises NotFoundError for a snapshot that neither lives
    nor is known to lineage.
    """
    found = FoundLines([catalog, *catalogs])
    edges = lineage_graph(catalog, *catalogs) if graph is None else graph
    store, commit = asked_line(edges, found.named(table), snapshot_id, commit)
    asked = line_key(store)
    below = {key: _read(key, name, found, asked) for key, name in edges.lines_below(asked, store.name).items()}
    histories = LineHistories([line for line, _ in below.values()], edges)
    stores = {key: store for key, (_, store) in below.items() if store is not None}
    run = Spread(histories, partial(_partitions_of, stores))
    start = histories.lines[asked].find(TableVersion(snapshot_id=snapshot_id, commit=commit))
    if start is None or commit not in {None, histories.nodes[start].step.version.commit}:
        named = f"snapshot {snapshot_id} of {table}{'' if commit is None else f' of commit {commit}'}"
        raise NotFoundError(
            f"{named} does not exist, and no lineage names it; `lakelog table history` lists the existing snapshots"
        )
    version = histories.nodes[start].step.version
    run.spread(start, wrong_snapshot(asked, version))
    warehouses = {key: warehouse_of(store.path) for key, store in stores.items()}
    lines = [_TaintedLine(histories, histories.lines[key], run, stores.get(key)) for key in below]
    lines = [line for line in lines if line.is_tainted]
    return Tainted(
        snapshots=pa.Table.from_pylist([row for line in lines for row in line.snapshots()], schema=SNAPSHOTS_SCHEMA),
        tables=pa.Table.from_pylist([line.row(warehouses.get(line.key)) for line in lines], schema=TABLES_SCHEMA),
    )


def wrong_snapshot(line: LineKey, version: TableVersion) -> WrongSnapshot:
    """A snapshot in the form in which mends name it."""
    return WrongSnapshot(uuid=line.uuid, branch=line.branch, snapshot_id=version.snapshot_id, commit=version.commit)


def _read(key: LineKey, name: str, tables: FoundLines, asked: LineKey) -> tuple[Line, TableStore | None]:
    """A line and its table; if it cannot be read, the fed part of the line. Raises the error of the asked line."""
    try:
        store = tables.find(key, name)
        line = read_line(key, store, tables.expired, name=line_name(name, key.branch))
        return line if store is None else with_earlier_steps(line, store), store
    except LakelogError as error:
        if key == asked:
            raise
        note_unreadable(line_name(name, key.branch), None, error)
        return read_line(key, None, tables.expired, name=line_name(name, key.branch)), None


def _partitions_of(stores: Mapping[LineKey, TableStore], key: LineKey, step: Step) -> Held:
    """The partitions that a living snapshot has written rows to."""
    store = stores.get(key)
    if store is None or not store.schema.partition_keys:
        return ANYWHERE
    for line in (store, *(other for of, other in stores.items() if of.uuid == key.uuid)):
        snapshot = line.snapshots.find(step.version.snapshot_id)
        if snapshot is not None and step.version.commit in {None, snapshot.uuid}:
            listed = line.manifests.read_list(
                snapshot.delta_manifest_list, size_bytes=snapshot.delta_manifest_list_size
            )
            entries = line.manifests.read_entries(listed)
            return frozenset(entry.partition for entry in entries if entry.kind is FileKind.ADD)
    return ANYWHERE


class _TaintedLine:
    """What the taint has reached in one line."""

    def __init__(self, histories: LineHistories, line: LineNodes, run: Spread, store: TableStore | None) -> None:
        self._store = store
        self.key = line.line.key
        self._nodes = histories.nodes
        self._line = line
        main = histories.lines.get(LineKey(self.key.uuid)) if self.key.branch is not None else None
        self._shared = frozenset() if main is None else frozenset((*main.chain, *main.gone))
        self._written = [node for node in (*line.chain, *line.gone) if node in run.written]
        self._held = run.held
        self._dirty = [node for node in line.chain if node in run.written or run.held[node]]

    @property
    def is_tainted(self) -> bool:
        """Whether any of its snapshots is tainted, or holds tainted rows."""
        return bool(self._written or self._dirty)

    def snapshots(self) -> Iterator[dict[str, object]]:
        """The tainted snapshots; for a branch, those that its table does not have and never had."""
        for node in self._written:
            step = self._nodes[node].step
            if node not in self._shared:
                yield {
                    **self._named(),
                    "snapshot_id": step.version.snapshot_id,
                    "commit": step.version.commit,
                    "time": step.time_millis,
                    "jobs": sorted({batch.job or batch.user for batch in step.batches}),
                    "is_living": step.is_living and self._store is not None,
                }

    def row(self, warehouse: str | None) -> dict[str, object]:
        """The row of the table. `warehouse` is None if no catalog has the table."""
        chain = self._line.chain
        firsts = [self._nodes[node].step.version.snapshot_id for node in (*self._dirty[:1], *self._written)]
        first = firsts[0] if self._dirty else min(firsts)
        before = chain[: chain.index(self._dirty[0])] if self._dirty else chain
        clean_id = next((self._id(node) for node in reversed(before) if self._is_clean(node, first)), None)
        is_dirty = bool(chain and self._held[chain[-1]])
        why = self._why(is_dirty, clean_id, warehouse)
        command = None
        if why is None:
            parts = ["lakelog", "table", "restore", self._line.line.name, "--snapshot-id", str(clean_id)]
            command = shlex.join([*parts, "--warehouse", str(warehouse)])
        return {
            **self._named(),
            "first_tainted": first,
            "last_clean": clean_id,
            "holds_tainted_rows": is_dirty,
            "command": command,
            "why": why,
        }

    def _why(self, is_dirty: bool, clean_id: int | None, warehouse: str | None) -> str | None:
        """Why there is no command."""
        if not is_dirty:
            return "it holds no tainted rows any more"
        if warehouse is None:
            return "it is in none of the catalogs"
        if clean_id is None and self._line.began in self._dirty[:1]:
            way = "overwrite it, or make it again of a clean snapshot of its table"
            return f"the branch began with tainted rows: {way}; {_SAID}"
        if clean_id is None:
            why = "no living snapshot before the first tainted one is clean: overwrite the table, or fill it anew"
            return f"{why}; {_SAID}"
        return None

    def _is_clean(self, node: int, first: int) -> bool:
        step = self._nodes[node].step
        if self._held[node] or not step.is_living or not step.is_whole or step.version.snapshot_id >= first:
            return False
        # Lines share snapshots, which may live only in another line.
        living = None if self._store is None else self._store.snapshots.find(self._id(node))
        return living is not None and step.version.commit in {None, living.uuid}

    def _id(self, node: int) -> int:
        return self._nodes[node].step.version.snapshot_id

    def _named(self) -> dict[str, object]:
        return {"table": self._line.line.name, "uuid": self.key.uuid, "branch": self.key.branch}

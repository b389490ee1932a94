"""What a wrong snapshot has reached: the snapshots made from it, the last clean one of each table, and the way back.

A batch is tainted that read a range of snapshots with a tainted one in it, or a state that holds tainted rows. A table
holds tainted rows from its first tainted batch on, until it is restored to a clean snapshot, or overwritten by a batch
that read nothing tainted. Where it is not known any more what a stream has read before, it is taken to have read all.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakelog.catalog.catalog import Catalog
from lakelog.common.errors import LakelogError, NotFoundError
from lakelog.filestore.io.path_forms import warehouse_of
from lakelog.filestore.metadata.row_sources import LineKey
from lakelog.filestore.metadata.store import TableStore
from lakelog.filestore.schema.line_names import line_name
from lakelog.lineage.edge_arrays import EdgeArrays
from lakelog.lineage.line_graph import FoundTables, read_line
from lakelog.lineage.lines import Change, Line, Step, line_key, source_key
from lakelog.lineage.questions import lineage_graph
from lakelog.lineage.record import ReadMode, TableSource, TableVersion
from lakelog.lineage.unreadable import note_unreadable
from lakelog.lineage.versions import LineVersions

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


@dataclass(frozen=True, kw_only=True)
class Tainted:
    """What a wrong snapshot has reached, the table of the wrong snapshot first.

    `snapshots` has a row for the wrong one and for each that a tainted batch was written to, with the jobs that wrote
    it. `tables` has a row a table: its first tainted snapshot, the newest living clean one before it, whether the
    newest snapshot still holds tainted rows, and then the `command` that restores the clean one; `why` says why there
    is none. Streams that write a restored table go on behind what they have read: run them with new checkpoints, or
    restore with `--rewind-writers` and set their checkpoints back too.
    """

    snapshots: pa.Table
    tables: pa.Table

    @property
    def commands(self) -> list[str]:
        """The commands that restore all tables that hold tainted rows, sources first."""
        return [command for command in self.tables["command"].to_pylist() if command is not None]


def tainted(
    catalog: Catalog,
    table: str,
    snapshot_id: int,
    *,
    catalogs: Sequence[Catalog] = (),
    graph: EdgeArrays | None = None,
) -> Tainted:
    """What the wrong rows of one snapshot have reached, at any depth, in this catalog and in `catalogs`.

    Reads the living snapshots of all tables below; what has expired is known from the system tables. `graph` is
    `lineage_graph` of the same catalogs, for who asks more than once. Raises NotFoundError for a snapshot that neither
    lives nor is known to lineage.
    """
    found = FoundTables([catalog, *catalogs])
    edges = lineage_graph(catalog, *catalogs) if graph is None else graph
    start = line_key(found.named(table))
    below = {key: _read(key, name, found, start) for key, name in edges.lines_below(start, table).items()}
    run = Spread([line for line, _ in below.values()])
    position = run.position(start, snapshot_id)
    if position is None:
        raise NotFoundError(
            f"snapshot {snapshot_id} of {table} does not live, and no lineage names it; of a snapshot that was rolled "
            "back lakelog.lineage.downstream knows what was made from it, by the uuid of its commit"
        )
    run.spread(start, position)
    warehouses = {key: warehouse_of(store.path) for key, (_, store) in below.items() if store is not None}
    return Tainted(snapshots=run.snapshots(), tables=run.tables(warehouses))


def _read(key: LineKey, name: str, tables: FoundTables, asked: LineKey) -> tuple[Line, TableStore | None]:
    """A line and its table; of one that cannot be read what was fed. Raises the error of the asked line."""
    try:
        store = tables.find(key, name)
        return read_line(key, store, tables.expired, name=name), store
    except LakelogError as error:
        if key == asked:
            raise
        note_unreadable(line_name(name, key.branch), None, error)
        return read_line(key, None, tables.expired, name=name), None


class Spread:
    """How taint spreads over lines."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = {line.key: line for line in lines}
        self._versions = {line.key: LineVersions(line.steps) for line in lines}
        self._written: dict[LineKey, set[int]] = {line.key: set() for line in lines}  # steps with tainted batches
        self._held = {line.key: [False] * len(line.steps) for line in lines}  # whether a step holds tainted rows

    def position(self, line: LineKey, snapshot_id: int) -> int | None:
        """The step of a snapshot; None for one that is not known."""
        return self._versions[line].position(TableVersion(snapshot_id=snapshot_id))

    def spread(self, start: LineKey, position: int) -> None:
        """Taint a step, and all that was made from it, until nothing more is tainted."""
        self._written[start].add(position)
        self._hold(self._lines[start])
        while any(self._take(line) for line in self._lines.values()):
            pass

    def _take(self, line: Line) -> bool:
        """Search a line for more tainted batches; whether there are."""
        known = self._written[line.key]
        new = {
            at
            for at, step in enumerate(line.steps)
            if at not in known and any(self._is_tainted(source, step) for source in _tables_of(step, line.key))
        }
        if 0 not in known and any(self._is_held(source, step) for source, step in _begun_before(line)):
            new.add(0)
        known.update(new)
        if new:
            self._hold(line)
        return bool(new)

    def _hold(self, line: Line) -> None:
        held, written = self._held[line.key], self._written[line.key]
        is_held = False
        for at, step in enumerate(line.steps):
            if step.change is Change.RESTORE and step.restored is not None:
                target = self._versions[line.key].position(step.restored)
                is_held = is_held if target is None else held[target]
            elif step.change is Change.TAKEN:
                target = None if step.restored is None else self._versions[line.key].at_or_before(step.restored)
                is_held = held[target] if target is not None else is_held and step.restored is not None
            elif step.change is Change.OVERWRITE:
                is_held = is_held and _reads_itself(step, line.key)
            is_held = is_held or at in written
            held[at] = is_held

    def _is_tainted(self, source: TableSource, step: Step) -> bool:
        """Whether what a batch has read of a source is tainted: a range of changes, or a state.

        What it has read up to is not known exactly everywhere: then it is all that was there.
        """
        key = source_key(source)
        if key not in self._lines:
            return False
        written, held = self._written[key], self._held[key]
        end = self._read_up_to(key, source.end, step)
        if source.mode is ReadMode.BATCH or source.start is None:
            return end >= 0 and held[end]
        if not source.is_exact:
            end = max(end, self._read_up_to(key, None, step))
        start = self._read_up_to(key, source.start, step)
        return any(start < at <= end for at in written)

    def _is_held(self, source: TableSource, step: Step) -> bool:
        """Whether the state of a source that a batch has read up to holds tainted rows."""
        key = source_key(source)
        return key in self._lines and any(self._held[key][: self._read_up_to(key, source.end, step) + 1][-1:])

    def _read_up_to(self, key: LineKey, version: TableVersion | None, step: Step) -> int:
        """The step of a version; where it was rolled back or is not known the last one that was there before it."""
        found = None if version is None else self._versions[key].position(version)
        if found is not None:
            return found
        last = -1
        for at, one in enumerate(self._lines[key].steps):
            is_before = version is None or one.version.snapshot_id < version.snapshot_id
            if is_before and one.time_millis <= step.time_millis:
                last = at
        return last

    def snapshots(self) -> pa.Table:
        """The tainted snapshots."""
        rows = [
            {
                "table": line.name,
                "uuid": line.key.uuid,
                "branch": line.key.branch,
                "snapshot_id": line.steps[at].version.snapshot_id,
                "commit": line.steps[at].version.commit,
                "time": line.steps[at].time_millis,
                "jobs": sorted({batch.job or batch.user for batch in line.steps[at].batches}),
                "is_living": line.steps[at].is_living,
            }
            for line in self._lines.values()
            for at in sorted(self._written[line.key])
        ]
        return pa.Table.from_pylist(rows, schema=SNAPSHOTS_SCHEMA)

    def tables(self, warehouses: Mapping[LineKey, str]) -> pa.Table:
        """The tables with tainted snapshots. `warehouses` are those of tables that a catalog has."""
        rows = [self._row(line, warehouses.get(line.key)) for line in self._lines.values() if self._written[line.key]]
        return pa.Table.from_pylist(rows, schema=TABLES_SCHEMA)

    def _row(self, line: Line, warehouse: str | None) -> dict[str, object]:
        first, held = min(self._written[line.key]), self._held[line.key]
        clean = [at for at, step in enumerate(line.steps[:first]) if step.is_living and step.is_whole and not held[at]]
        clean_id = line.steps[clean[-1]].version.snapshot_id if clean else None
        is_dirty = held[-1]
        command = why = None
        if not is_dirty:
            why = "it holds no tainted rows any more"
        elif warehouse is None:
            why = "it is in none of the catalogs"
        elif clean_id is None:
            why = "no living snapshot before the first tainted one is clean: overwrite the table, or fill it anew"
        else:
            command = shlex.join(
                ["lakelog", "table", "restore", line.name, "--snapshot-id", str(clean_id), "--warehouse", warehouse]
            )
        return {
            "table": line.name,
            "uuid": line.key.uuid,
            "branch": line.key.branch,
            "first_tainted": line.steps[first].version.snapshot_id,
            "last_clean": clean_id,
            "holds_tainted_rows": is_dirty,
            "command": command,
            "why": why,
        }


def _tables_of(step: Step, own: LineKey) -> Iterator[TableSource]:
    """The tables that the batches of a step read, without its own."""
    for source in (source for batch in step.batches for source in batch.read):
        if isinstance(source, TableSource) and source_key(source) != own:
            yield source


def _begun_before(line: Line) -> Iterator[tuple[TableSource, Step]]:
    """What streams read in their first known batch, where their batches before it have expired unknown."""
    if not line.steps or line.steps[0].version.snapshot_id == 1:
        return
    seen: set[str] = set()
    for step in line.steps:
        for batch in step.batches:
            is_brought = any(one.merged for one in step.batches)
            if batch.user not in seen and batch.number and not is_brought:
                yield from ((source, step) for source in batch.sources if isinstance(source, TableSource))
            seen.add(batch.user)


def _reads_itself(step: Step, key: LineKey) -> bool:
    sources = (source for batch in step.batches for source in batch.sources)
    return any(isinstance(source, TableSource) and source_key(source) == key for source in sources)

"""The model's snapshots as the file store commits them, without files.

They have the properties that each commit carries on, and what lineage reads of them. Edges of snapshots that were fed
are rows, as the system tables have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast  # Any: the values of a row

from lakelog.filestore.metadata.origins.cleared_rows import cleared_property
from lakelog.filestore.metadata.origins.record import CommittedBatch, LineKey
from lakelog.filestore.metadata.origins.restored import forked_sources
from lakelog.filestore.metadata.origins.sources_property import sources_property
from lakelog.filestore.metadata.origins.unseen_changes import carried_unseen, is_unseen, unseen_property
from lakelog.filestore.metadata.snapshots.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    OPERATION_KEY,
    PAIMON_OPERATIONS,
    CommitKind,
    Snapshot,
)
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.metadata.snapshots.users import (
    NO_USERS,
    CarriedProperties,
    PropertyKey,
    carried_properties,
    lineage_property,
)
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.paths import MAIN_BRANCH
from lakelog.lineage.lines.expired import steps_of_rows
from lakelog.lineage.lines.line_steps import ReadsOfSnapshots, StepRun
from lakelog.lineage.lines.lines import Step
from lakelog.lineage.tables.edges import LineBatches, edges_of_batch
from lakelog.lineage.tables.projecting import numbered
from lakelog.warehouse.lineage_tables import SNAPSHOT_EDGES

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Commit:
    """What a commit does. `batch` is what it records, `properties` are those that it brings.

    `replaces_all`: no row from before stays. A commit of another engine has no properties.
    """

    kind: CommitKind = CommitKind.APPEND
    operation: str | None = None
    batch: CommittedBatch | None = None
    replaces_all: bool = False
    is_foreign: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Living:
    """The living snapshots of a line, oldest first, in place of their files."""

    snapshots: Sequence[Snapshot]

    def walk_back(self, start: Snapshot) -> Iterator[Snapshot]:
        """As `SnapshotManager.walk_back`."""
        return (one for one in reversed(self.snapshots) if one.id <= start.id)

    def carried(self, start: Snapshot | None) -> CarriedProperties:
        """The properties that a commit behind a snapshot carries on."""
        return carried_properties(start, cast("SnapshotManager", self))


def committed(
    line: LineKey,
    living: Sequence[Snapshot],
    commit: Commit,
    *,
    uuid: str,
    time_millis: int,
    changes_rows: bool,
    has_changelog: bool,
) -> Snapshot:
    """The snapshot of a commit behind the living ones of its line."""
    newest = living[-1] if living else None
    batch = commit.batch
    user = f"user of {uuid}" if batch is None else batch.user
    identifier = BATCH_COMMIT_IDENTIFIER if batch is None else batch.identifier
    snapshot = Snapshot(
        id=1 if newest is None else newest.id + 1,
        uuid=uuid,
        schema_id=0,
        base_manifest_list="",
        delta_manifest_list=uuid,
        commit_user=user,
        commit_identifier=identifier,
        commit_kind=commit.kind,
        time_millis=time_millis,
        total_record_count=0,
        delta_record_count=int(changes_rows),
        changelog_manifest_list="changes" if has_changelog and commit.kind is CommitKind.OVERWRITE else None,
        operation=commit.operation if commit.operation in PAIMON_OPERATIONS else None,
    )
    if commit.is_foreign:
        return snapshot
    carried = Living(living).carried(newest)
    named = {} if commit.operation in {None, snapshot.operation} else {OPERATION_KEY: str(commit.operation)}
    recorded = {} if batch is None else lineage_property(user, identifier, batch.lineage.to_json())
    properties = {PropertyKey.USERS: NO_USERS, **carried.properties, **named, **recorded, **commit.properties}
    snapshot = replace(snapshot, properties=properties)
    sources = sources_property(
        snapshot,
        newest,
        carried,
        own=line,
        is_restore=PropertyKey.SOURCES in commit.properties,
        replaces_all=commit.replaces_all,
    )
    cleared = cleared_property(snapshot, carried.properties, replaced=(), replaces_all=commit.replaces_all)
    return replace(snapshot, properties={**properties, **sources, **unseen_property(snapshot, carried), **cleared})


def of_branch(snapshot: Snapshot, carried: CarriedProperties, now: CarriedProperties) -> Snapshot:
    """A snapshot of a table as its branch has it: it says all that it says in the table, and what it carries on.

    `now` is what the newest snapshot of the table does.
    """
    told = {**carried.properties, **forked_sources(carried, now.properties), **carried_unseen(carried)}
    return replace(snapshot, properties={**told, **snapshot.properties})


def is_passed(snapshot: Snapshot) -> bool:
    """Whether streams that follow the files are not given the changes of a snapshot."""
    return is_unseen(snapshot, log="")


def living_steps(
    snapshots: Sequence[Snapshot], replacing: set[str], waiting: ReadsOfSnapshots | None = None
) -> list[Step]:
    """The steps of living snapshots. `replacing` are the commits that left no row from before."""
    run = StepRun(lambda one: one.uuid in replacing, waiting=waiting)
    return [run.take(snapshot) for snapshot in snapshots]


@dataclass
class FedEdges:
    """The edges in the system tables, by line and commit."""

    rows: dict[LineKey, dict[str | None, list[Row]]] = field(default_factory=dict)

    def feed(self, line: LineKey, snapshots: Sequence[Snapshot]) -> None:
        """Take in what the living snapshots of a line record."""
        named = SimpleNamespace(uuid=line.uuid, name=line.uuid, branch=line.branch or MAIN_BRANCH)
        batches = LineBatches()
        for one in snapshots:
            edges = [
                edge
                for whole in batches.take(one)
                for edge in edges_of_batch(cast("TableStore", named), named.branch, whole)
            ]
            if edges:
                self.rows.setdefault(line, {})[one.uuid] = [_stored(row) for row in numbered(edges)]

    def steps(self, line: LineKey, before: int | None) -> list[Step]:
        """The steps of a line below a snapshot id that edges name."""
        rows = [row for found in self.rows.get(line, {}).values() for row in found]
        return steps_of_rows([row for row in rows if before is None or row["sink_snapshot"] < before])


def _stored(row: Row) -> Row:
    """A row of `snapshot_edges`; a column that an edge has not is null."""
    return {name: row.get(name) for name in SNAPSHOT_EDGES.columns}

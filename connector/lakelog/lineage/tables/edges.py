"""Edges: one row for each source of each whole batch, read from the snapshots of the table that it was written to.

A batch is whole in the first snapshot whose users have its user at its identifier or above. Parts of it may be in
earlier snapshots, where other writers took them in. What a part was made from is an edge of the batch too: a batch that
was planned again may have read another state of a table that is not a stream. A batch without sources is one row whose
source is null; a batch with an unreadable record is so too, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakelog.common.errors import LakelogError
from lakelog.filestore.expire import unfed_from
from lakelog.filestore.metadata.origins import (
    CommittedBatch,
    ForeignSource,
    Source,
    TableSource,
    TableVersion,
    UnknownSource,
    readable_batches,
)
from lakelog.filestore.metadata.snapshots import PropertyKey, Snapshot, parse_users
from lakelog.filestore.metadata.tables import LEASE_PREFIX, ConsumerManager, TableStore
from lakelog.filestore.schema import BRANCH_INFIX, MAIN_BRANCH, TablePaths
from lakelog.lineage.records.sources import uuid_of
from lakelog.lineage.tables.beginnings import line_snapshots
from lakelog.lineage.tables.edge_columns import EDGE_SCHEMA, Edge
from lakelog.lineage.tables.found_tables import note_unreadable
from lakelog.protocol.state import LogState
from lakelog.protocol.statements import unfinished_batches

PARTS_LEASE = f"{LEASE_PREFIX}lineage-parts"


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeBatch:
    """A batch, the first snapshot that holds it whole, and what it and its parts were made from.

    `fields` are the checksums of the lineage of the fields of its parts.
    """

    snapshot: Snapshot
    batch: CommittedBatch
    sources: Sequence[Source]
    fields: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfed:
    """Edges of batches that were not fed, and the snapshot up to which they go.

    `parts_from` is the oldest snapshot with a part of an unfinished batch.
    """

    edges: list[Edge]
    batch_count: int
    last: Snapshot
    parts_from: int | None


@dataclass(frozen=True, slots=True)
class Part:
    """A batch, or a part of it, in the snapshot that took it in."""

    snapshot_id: int
    batch: CommittedBatch


@dataclass(slots=True)
class LineBatches:
    """The batches of one line, whose snapshots are taken in order. `parts` has those that are not whole yet.

    What the batches of a branch have read is taken with the merge that brought them.
    """

    parts: dict[tuple[str, int], list[Part]] = field(default_factory=dict)

    def take(self, snapshot: Snapshot) -> list[WholeBatch]:
        """Take in a snapshot; returns the batches that it is the first to hold whole."""
        for batch in readable_batches(snapshot):
            self.parts.setdefault((batch.user, batch.identifier), []).append(Part(snapshot.id, batch))
        if not self.parts:
            return []
        users, own = parse_users(snapshot.properties), (snapshot.commit_user, snapshot.commit_identifier)
        found = [
            key for key in self.parts if key == own or (key[0] in users and users[key[0]].identifier >= key[1])
        ]  # a statement on a table without a log leaves no user: it is whole in its own snapshot
        whole = [self.parts.pop(key) for key in found]
        taken = [
            WholeBatch(snapshot=snapshot, batch=parts[-1].batch, sources=_sources_of(parts), fields=_fields_of(parts))
            for parts in whole
        ]
        brought = (one for parts in whole for one in parts[-1].batch.lineage.brought)
        return taken + [
            WholeBatch(snapshot=snapshot, batch=one, sources=one.lineage.sources, fields=one.lineage.fields)
            for one in brought
        ]


def unfed(table: TableStore, branch: str, *, start: int | None = None, edges_max: int | None = None) -> Iterator[Unfed]:
    """What of a line was not fed, oldest first, in pieces of about `edges_max` edges; with `start`, all from there on.

    A line that was never fed, or was rolled back or replaced since, begins at snapshot 1.
    """
    first, lease = start, None
    if first is None:
        first = unfed_from(replace(table, branch=branch)) or 1
        lease = ConsumerManager(table.file_io, TablePaths(table.path, branch)).find(PARTS_LEASE)
    batches, edges, count, log = LineBatches(), list[Edge](), 0, ""
    last: Snapshot | None = None
    for snapshot in line_snapshots(table, branch, min(first, first if lease is None else lease)):
        for whole in batches.take(snapshot):
            if snapshot.id >= first:
                edges += edges_of_batch(table, branch, whole)
                count += 1
        last, log = snapshot, snapshot.properties.get(PropertyKey.LOG_STATE, log)
        if edges_max is not None and len(edges) >= edges_max:
            yield Unfed(edges=edges, batch_count=count, last=last, parts_from=_parts_from(batches, log))
            edges, count, last = [], 0, None
    if last is not None and last.id >= first:
        yield Unfed(edges=edges, batch_count=count, last=last, parts_from=_parts_from(batches, log))


def unfed_edges(table: TableStore, *, was_fed: bool) -> Iterator[Edge]:
    """The edges of a table and its branches that were not fed; all living ones where nothing `was_fed`.

    A branch that cannot be read has none, and is reported as unreadable.
    """
    for branch in table.branch_names():
        try:
            for piece in unfed(table, branch, start=None if was_fed else 1):
                yield from piece.edges
        except LakelogError as error:
            note_unreadable(replace(table, branch=branch).name, table.path, error)


def _parts_from(batches: LineBatches, log: str) -> int | None:
    """The oldest snapshot with a part of an unfinished batch; what is not a writer's batch never becomes whole."""
    if not batches.parts or not log:
        return None
    unfinished = unfinished_batches(LogState.from_json(log, where="a snapshot with parts of batches"))
    keys = {(batch.user, batch.identifier) for batch in unfinished}
    return min((part[0].snapshot_id for key, part in batches.parts.items() if key in keys), default=None)


def edge_table(edges: Iterable[Mapping[str, object]]) -> pa.Table:
    """Edges as a table of EDGE_SCHEMA."""
    return pa.Table.from_pylist(list(edges), schema=EDGE_SCHEMA)


def edges_of_batch(table: TableStore, branch: str, whole: WholeBatch) -> list[Edge]:
    """The edges of a whole batch: one per source, or one without a source."""
    lineage, snapshot = whole.batch.lineage, whole.snapshot
    sink: Edge = {
        "job": lineage.job,
        "query_id": lineage.query_id,
        "run_id": lineage.run_id,
        "operation": lineage.operation,
        "sink_uuid": uuid_of(table),
        "sink_table": table.name.removesuffix(f"{BRANCH_INFIX}{table.branch}"),
        "sink_branch": None if branch == MAIN_BRANCH else branch,
        "sink_snapshot": snapshot.id,
        "sink_commit": snapshot.uuid,
        "sink_time": snapshot.time_millis,
        "user": whole.batch.user,
        "identifier": whole.batch.identifier,
        "barrier_id": lineage.batch_id,
        "fields": tuple(whole.fields),
    }
    return [sink | _source_columns(source) for source in whole.sources] or [sink]


def _source_columns(source: Source) -> Edge:
    match source:
        case TableSource():
            return {
                "source_kind": "table",
                "source_uuid": source.uuid,
                "source_table": source.table,
                "source_branch": source.branch,
                "source_path": source.path,
                "mode": source.mode.value,
                **_version_columns("source_from", source.start),
                **_version_columns("source_to", source.end),
                "exact": source.is_exact,
                "source_log": None if source.log is None else json.dumps(source.log.to_json()),
                "why": source.why,
            }
        case ForeignSource():
            named = source.format if source.name is None else f"{source.format}:{source.name}"
            return {
                "source_kind": "foreign",
                "source_table": named,
                "foreign_from": source.start,
                "foreign_to": source.end,
            }
        case UnknownSource():
            return {"source_kind": "unknown", "why": source.why}


def _version_columns(name: str, version: TableVersion | None) -> Edge:
    return {} if version is None else {name: version.snapshot_id, f"{name}_commit": version.commit}


def _sources_of(parts: Sequence[Part]) -> list[Source]:
    """The sources of the parts of a batch, the last part's first, without those that a later part also has.

    A part that reads a source twice, for example by two streams, keeps both reads.
    """
    found: list[Source] = []
    for part in reversed(parts):
        known = found.copy()
        for source in part.batch.lineage.sources:
            if source in known:
                known.remove(source)
            else:
                found.append(source)
    return found


def _fields_of(parts: Sequence[Part]) -> list[str]:
    """The checksums of the parts of a batch, the first part's first."""
    return list(dict.fromkeys(checksum for part in parts for checksum in part.batch.lineage.fields))

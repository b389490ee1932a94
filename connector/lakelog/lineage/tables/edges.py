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
from typing import TYPE_CHECKING, Any  # Any: the values of a row

import pyarrow as pa

from lakelog.common.errors import LakelogError
from lakelog.filestore.metadata.origins import (
    CommittedBatch,
    ForeignSource,
    Source,
    TableSource,
    TableVersion,
    UnknownSource,
    readable_batches,
)
from lakelog.filestore.metadata.snapshots import Snapshot, parse_users
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.schema import BRANCH_INFIX, MAIN_BRANCH
from lakelog.lineage.records.sources import uuid_of
from lakelog.lineage.records.unreadable import note_unreadable
from lakelog.lineage.tables.beginnings import line_snapshots

if TYPE_CHECKING:
    from lakelog.warehouse.handle import TableHandle

# `sink_snapshot` is the first in which the batch is whole, `barrier_id` is Spark's number of the micro-batch, null for
# a batch write. `source_kind` is `table`, `foreign`, `unknown`, or null for a batch without sources. `foreign_from` and
# `foreign_to` are offsets in the notation of a foreign source, `source_log` has those of a log as in the record. A
# branch is null for the main line.
EDGE_SCHEMA = pa.schema(
    [
        ("job", pa.string()),
        ("query_id", pa.string()),
        ("run_id", pa.string()),
        ("operation", pa.string()),
        pa.field("sink_uuid", pa.string(), nullable=False),
        pa.field("sink_table", pa.string(), nullable=False),
        ("sink_branch", pa.string()),
        pa.field("sink_snapshot", pa.int64(), nullable=False),
        ("sink_commit", pa.string()),
        pa.field("sink_time", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("user", pa.string(), nullable=False),
        pa.field("identifier", pa.int64(), nullable=False),
        ("barrier_id", pa.int64()),
        ("source_kind", pa.string()),
        ("source_uuid", pa.string()),
        ("source_table", pa.string()),
        ("source_branch", pa.string()),
        ("mode", pa.string()),
        ("source_from", pa.int64()),
        ("source_from_commit", pa.string()),
        ("source_to", pa.int64()),
        ("source_to_commit", pa.string()),
        ("exact", pa.bool_()),
        ("why", pa.string()),
        ("source_path", pa.string()),
        ("source_log", pa.string()),
        ("foreign_from", pa.string()),
        ("foreign_to", pa.string()),
    ]
)
# A row of EDGE_SCHEMA; what is missing is null. `fields` beside them has the checksums of the lineage of its fields.
Edge = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeBatch:
    """A batch, the first snapshot that holds it whole, and what it and its parts were made from.

    `fields` are the checksums of the lineage of the fields of its parts.
    """

    snapshot: Snapshot
    batch: CommittedBatch
    sources: Sequence[Source]
    fields: Sequence[str] = ()


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


def edges_of(table: TableHandle | TableStore) -> pa.Table:
    """The edges of the whole batches in the living snapshots of a table and its branches, or of one branch.

    They come line by line, oldest first. Reads every living snapshot. A branch that cannot be read gives no edges, and
    is reported as unreadable.
    """
    store = store_of(table)
    edges = list(line_edges(store, store.branch))
    for branch in store.branch_names()[1:] if store.branch == MAIN_BRANCH else ():
        try:
            edges += list(line_edges(store, branch))
        except LakelogError as error:
            note_unreadable(replace(store, branch=branch).name, store.path, error)
    return edge_table(edges)


def edge_table(edges: Iterable[Mapping[str, object]]) -> pa.Table:
    """Edges as a table of EDGE_SCHEMA."""
    return pa.Table.from_pylist(list(edges), schema=EDGE_SCHEMA)


def store_of(table: TableHandle | TableStore) -> TableStore:
    """The file store of a table of a catalog."""
    return table if isinstance(table, TableStore) else table.store


def line_edges(table: TableStore, branch: str) -> Iterator[Edge]:
    """The edges of one line of a table."""
    batches = LineBatches()
    for snapshot in line_snapshots(table, branch):
        for whole in batches.take(snapshot):
            yield from edges_of_batch(table, branch, whole)


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

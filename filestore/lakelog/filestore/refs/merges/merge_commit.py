"""The commit of a three-way merge on a table without a log: rows, deletes and the record of the merge in one snapshot.

Before the commit, a tag of the branch keeps what is merged; after it, the tag of the previous merge is deleted. A merge
that is killed in between has been committed or not; the next merge deletes the tag that is left.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from lakelog.common.errors import CorruptDataError, LakelogError
from lakelog.common.types import RowKind
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.data.row_pieces import StoredRows
from lakelog.filestore.data.taken_rows import WantedRows, files_without
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.snapshot import MERGE_OPERATION, Snapshot
from lakelog.filestore.metadata.snapshots.users import lineage_property
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET
from lakelog.filestore.refs.merges.branch_merger import BranchMerger
from lakelog.filestore.refs.merges.merge_base import BranchLine
from lakelog.filestore.refs.merges.merge_plan import BranchMerge, MergePlan
from lakelog.filestore.refs.merges.sides import counted_rows
from lakelog.filestore.refs.states.row_equality import comparable
from lakelog.filestore.refs.states.table_state import StateFile, TableState
from lakelog.filestore.write.deleting import TableChange
from lakelog.filestore.write.places import partitions_of, parts_of, places_of
from lakelog.filestore.write.row_kinds import split_kinds
from lakelog.filestore.write.table_write import TableWrite
from lakelog.filestore.write.write import add_entry, write_changelog_files

logger = logging.getLogger("lakelog.filestore")


def release_merged(line: BranchLine, latest: Snapshot | None) -> None:
    """Delete the tags of earlier merges; errors are only logged, since the merge has taken effect."""
    try:
        line.release(latest)
    except LakelogError as error:
        logger.warning("%s: tags of merged branch %r are left behind: %s", line.main.name, line.name, error)


class MergeCommit(TableChange):
    """One merge: planned on the newest snapshot, and again if another commit comes first."""

    def __init__(self, table: TableStore, merger: BranchMerger) -> None:
        self._merger = merger
        self.plan: MergePlan | None = None
        self._user = str(uuid.uuid4())
        self._recorded: dict[str, object] = {}
        self._taken_out: list[ManifestEntry] = []
        self._changelog: list[ManifestEntry] = []
        super().__init__(table, lambda latest: merger.plan(latest).changes, MERGE_OPERATION)

    def resolve(self, latest: Snapshot | None) -> CommitRequest | None:
        """The commit after `latest`; None if the branch has nothing new. Raises BranchConflictError."""
        if self.plan is None or latest != self._base:
            self._outdated = [*self.superseded, *self.paths]
            self._write, self._taken_out, self._changelog = None, [], []
            self.plan = self._merger.plan(latest).checked(self._table.name)
            self._base = latest
            if self.plan.properties is None:
                return None
            self._merger.line.keep()
            self._recorded = {"operation": MERGE_OPERATION, **self._merger.lineage(latest, self.plan.result)}
            written = self.plan.written
            try:
                if written.row_count:
                    self._write = TableWrite(self._table, written.source(), replaces=None)
                if self.plan.removed.num_rows:
                    self._taken_out = self._without(latest, self.plan.removed)
                    self._changelog = self._changes(latest, self.plan)
            finally:
                self.plan.close()
        if self.plan.properties is None:
            return None
        empty = CommitRequest(commit_user=self._user)
        request = empty if self._write is None else self._write.resolve(latest)
        lineage = lineage_property(request.commit_user, request.commit_identifier, self._recorded)
        return replace(
            request,
            entries=[*self._taken_out, *request.entries],
            changelog=[*self._changelog, *request.changelog],
            properties={**request.properties, **self.plan.properties, **lineage},
            operation=MERGE_OPERATION,
        )

    def done(self, snapshot: Snapshot | None) -> BranchMerge:
        """The result of the committed merge; None if there was nothing to merge."""
        assert self.plan is not None, "a commit is resolved once at least"
        release_merged(self._merger.line, self._base if snapshot is None else snapshot)
        return replace(self.plan.result, snapshot_id=None if snapshot is None else snapshot.id)

    def _without(self, latest: Snapshot | None, rows: pa.Table) -> list[ManifestEntry]:
        line = self._merger.line
        base = line.base(latest, self._merger.base)
        main = TableState(table=self._table, snapshot=latest)
        return without_rows(main, base, TableState(table=line.branch, snapshot=line.snapshot), rows)

    def _changes(self, latest: Snapshot | None, plan: MergePlan) -> list[ManifestEntry]:
        """The changelog files of a merge that removes rows, since its other files also hold rows that stay.

        Deletes are in files of their own, since files of append-only tables have no row kinds.
        """
        added = (split_kinds(pa.Table.from_batches([batch]))[0] for batch in plan.written.source().batches())
        live = self._table.live_files.of(latest)
        given: dict[BucketId, int] = {}

        def pieces(tables: Iterable[pa.Table], kind: RowKind) -> Iterator[tuple[BucketId, StoredRows]]:
            for rows in tables:
                for bucket, part in parts_of(places_of(self._table, rows, None), rows):
                    first = given.get(bucket, live.next_sequence(bucket))
                    given[bucket] = first + part.num_rows
                    numbers = pa.array(np.arange(first, given[bucket], dtype=np.int64))
                    kinds = pa.array(np.full(part.num_rows, kind.value, np.int8))
                    yield bucket, StoredRows(rows=part, sequences=numbers, kinds=kinds)

        return [
            *write_changelog_files(self._table, pieces([plan.removed], RowKind.DELETE)),
            *write_changelog_files(self._table, pieces(added, RowKind.INSERT)),
        ]

    @property
    def entries(self) -> list[ManifestEntry]:
        """The data files that the commit adds."""
        added = [entry for entry in self._taken_out if entry.kind is FileKind.ADD]
        return [*added, *super().entries]

    @property
    def paths(self) -> list[str]:
        """The paths of the files that the commit names."""
        added = [*(entry for entry in self._taken_out if entry.kind is FileKind.ADD), *self._changelog]
        return [*(self._table.data_path(entry.bucket_id, entry.file) for entry in added), *super().paths]


def without_rows(main: TableState, base: TableState, branch: TableState, rows: pa.Table) -> list[ManifestEntry]:
    """The entries of a commit that removes rows from the table in the state `main`: files are deleted and added.

    The files that the branch has replaced are searched first, as most of its deletes are there; the search ends with
    the last row. Raises CorruptDataError if a row is not found.
    """
    table, fields = main.table, main.table.schema.fields
    wanted = WantedRows([rows], partial(comparable, fields=fields))
    budget = READ_MEMORY_BUDGET.understood(table.schema.options)
    partitions, _ = partitions_of(table, rows)
    entries: list[ManifestEntry] = []
    for bucket, file in _searched(main, base, branch, set(partitions)):
        if not wanted.count:
            break
        pieces = (rows for rows, _ in counted_rows(main, bucket, [file], fields, budget_bytes=budget))
        left = files_without(table, bucket, file[0], pieces, wanted)
        if left is not None:
            entries.append(replace(add_entry(table, bucket, file[0]), kind=FileKind.DELETE))
            entries += [add_entry(table, bucket, one) for one in left]
    if wanted.count:
        raise CorruptDataError(
            f"table {table.name} lacks {wanted.count} of the rows that its branch {branch.table.branch!r} has deleted, "
            "though both come from a state that has them: name the state with base="
        )
    return entries


def _searched(
    main: TableState, base: TableState, branch: TableState, partitions: set[bytes]
) -> Iterator[tuple[BucketId, StateFile]]:
    """The files of the table in these partitions, first those that the branch has removed."""
    there, had, has = main.buckets(), base.buckets(), branch.buckets()
    later: list[tuple[BucketId, StateFile]] = []
    for bucket, files in sorted(there.items()):
        if bucket.partition not in partitions:
            continue
        lost = {file.file_name for file, _ in had.get(bucket, ())} - {file.file_name for file, _ in has.get(bucket, ())}
        for file in files:
            if file[0].file_name in lost:
                yield bucket, file
            else:
                later.append((bucket, file))
    yield from later

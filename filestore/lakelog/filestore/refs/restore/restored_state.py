"""What a restore changes: files, and the rows of the buckets whose files or deletion vectors differ. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.index.deletion_vectors import DeletionFile
from lakelog.filestore.index.index_manifest import deletion_files
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.origins.restored import restores_properties
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.identity import carried_anyhow, check_schema
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.read.row_digest import RowDigest, check_same_rows, digest_of
from lakelog.filestore.refs.states.changed_keys import is_large_beside_changes
from lakelog.filestore.refs.states.differences import Difference, unit_differences
from lakelog.filestore.refs.states.state_parts import StateUnit, unshared
from lakelog.filestore.refs.states.table_state import TableState


@dataclass(frozen=True)
class StateDifference:
    """The difference from `base`, the newest snapshot, to `target`, in the table's newest columns.

    `target` is a snapshot of the table, or with `line` one of that line: a branch with columns of the same names and
    types.
    """

    table: TableStore
    base: Snapshot
    target: Snapshot
    line: TableStore | None = None

    @property
    def _of_target(self) -> TableStore:
        """The line that reads the target: schema numbers are those of this line."""
        return self.table if self.line is None else self.line

    @cached_property
    def removed(self) -> list[ManifestEntry]:
        """The live files that the target lacks, as deletes."""
        kept = {entry.identifier for entry in _entries(self._of_target, self.target)}
        return [
            replace(entry, kind=FileKind.DELETE)
            for entry in _entries(self.table, self.base)
            if entry.identifier not in kept
        ]

    @cached_property
    def added(self) -> list[ManifestEntry]:
        """The files of the target that are not live."""
        there = {entry.identifier for entry in _entries(self.table, self.base)}
        return [entry for entry in _entries(self._of_target, self.target) if entry.identifier not in there]

    @property
    def is_empty(self) -> bool:
        """Whether the two states have the same files and the same deleted rows."""
        return not (self.removed or self.added or self._marked)

    @cached_property
    def buckets(self) -> list[BucketId]:
        """The buckets whose rows may differ, in order."""
        changed = {entry.bucket_id for entry in (*self.removed, *self.added)}
        return sorted(changed | self._marked)

    @cached_property
    def columns_missing(self) -> tuple[str, ...]:
        """The columns of the target's schema that the table has dropped since: their values are not restored."""
        there = {field.id for field in self.table.schema.fields}
        then = self._of_target.schemas.get(self.target.schema_id)
        return tuple(field.name for field in then.fields if field.id not in there)

    def properties(self) -> dict[str, str]:
        """The properties of the snapshot of a restore from the base to the target, beside those that are carried."""
        then, now = (carried_anyhow(self.table, one) for one in (self.target, self.base))
        return restores_properties(self.target, then, now.properties)

    def check(self) -> None:
        """Raise InvalidRequestError for a target whose files have another number of buckets than the table."""
        check_schema(self._of_target, self.target)
        for entry in _entries(self._of_target, self.target):
            if entry.total_buckets != self.table.bucket_count:
                raise InvalidRequestError(
                    f"the files of snapshot {self.target.id} of {self._of_target.name} have {entry.total_buckets} "
                    f"buckets, the table has {self.table.bucket_count}: rescale the table to {entry.total_buckets} "
                    "buckets, restore it, and rescale it back"
                )

    def rows(self, *, is_followed: bool) -> Iterator[tuple[BucketId, Difference]]:
        """The rows that differ, by unit, with their bucket. Memory: `read.memory-budget`.

        If keys may move between buckets, all changes of a partition belong to its lowest bucket, so that the row which
        a key had in one bucket is not removed after the row that it gets in another.

        Rows of a value-count table with a count below 0 count too: the target has them, although reads do not show
        them.

        `is_followed` compares what followers have seen of the two states, see `lakelog.filestore.read.scan.plan`.
        """
        for unit in self.units(is_followed=is_followed):
            for found in unit_differences(self.table, self._of_target, unit, self.table.schema.fields, has_debts=True):
                yield unit.bucket, found

    def units(self, *, is_followed: bool) -> Iterator[StateUnit]:
        """The parts of the two states that differ. See `rows`."""
        before = TableState(table=self.table, snapshot=self.base)
        after = TableState(table=self._of_target, snapshot=self.target)
        return unshared(before, after, is_followed=is_followed)

    def check_rows(self, found: Mapping[BucketId, RowDigest], *, what: str) -> None:
        """Raise CorruptDataError if changes of these digests do not lead from the base to the target.

        Reads the parts of the buckets that differ, but not parts that are large compared to their changes: there a
        comparison looks up the rows of changed keys.
        """
        names = self.table.schema.field_names
        for unit in self.units(is_followed=False):
            if is_large_beside_changes(unit):
                continue
            old = digest_of(self.table, unit.before, columns=names)
            new = digest_of(self._of_target, unit.after, columns=names)
            changed = old.plus(found.get(unit.bucket, RowDigest()))
            check_same_rows(changed, new, what=what, table_name=self.table.name)

    @cached_property
    def _marked(self) -> set[BucketId]:
        """The buckets whose deletion vectors differ."""
        now, then = deletion_files(self.table, self.base), deletion_files(self._of_target, self.target)
        nothing: Mapping[str, DeletionFile] = {}
        return {bucket for bucket in {*now, *then} if now.get(bucket, nothing) != then.get(bucket, nothing)}


def _entries(line: TableStore, snapshot: Snapshot) -> Iterator[ManifestEntry]:
    return line.live_files.of(snapshot).entries()


class RowCounts(NamedTuple):
    """How many rows a difference adds, removes and changes."""

    added: int
    removed: int
    changed: int


def row_counts(found: StateDifference) -> RowCounts:
    """The numbers of changed rows. Reads the buckets that differ."""
    added = removed = changed = 0
    for _, rows in found.rows(is_followed=False):
        added += rows.added.num_rows
        removed += rows.removed.num_rows
        changed += rows.new.num_rows
    return RowCounts(added=added, removed=removed, changed=changed)

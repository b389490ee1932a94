"""Batch reads of the changes between two states, see `lakelog.spark.shown_range`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.metadata.manifests import ManifestEntry
from lakelog.filestore.metadata.origins import TableVersion
from lakelog.filestore.metadata.snapshots import Snapshot, SnapshotManager
from lakelog.filestore.options import OptionUse, check_foreign_options
from lakelog.filestore.read import change_files
from lakelog.filestore.refs import RangeEnd, RangeName, TagPeriods
from lakelog.filestore.system import (
    ChangeRange,
)
from lakelog.lineage.records.sources import version_of
from lakelog.spark.failures import sentence_first
from lakelog.spark.shown_range import TO_AUTO_TAG, ShownRange
from lakelog.spark.source.reading.input_partitions import TableRows, partitions_of
from lakelog.spark.source.reading.read_mark import changes_read, marked
from lakelog.streams.reading.packing import delta_parts, difference_parts
from lakelog.streams.reading.parts import Part


class RangeReader(DataSourceReader):
    """Reads the changes of a range, which is resolved when Spark plans."""

    def __init__(self, rows: TableRows, shown: ShownRange) -> None:
        """Read nothing yet."""
        self._rows = rows
        self._shown = shown

    @sentence_first()
    def partitions(self) -> Sequence[InputPartition]:
        """The files that hold the changes, and the units in which states differ."""
        table, shown = self._rows.table, self._shown
        check_foreign_options(table.schema.options, OptionUse.FOLLOW, table_name=table.name)
        wanted = ChangeRange.of(table, after=self._after(), up_to=shown.up_to, source=shown.source)
        if shown.tags_mean_snapshots:
            first, last = (None if end is None else RangeEnd(number=end.number) for end in (wanted.first, wanted.last))
            wanted = replace(wanted, first=first, last=last)
        if wanted.is_difference:
            states = wanted.states()
            return marked(partitions_of(self._differences(*states)), changes_read(table, *map(version_of, states)))
        found: list[Part] = []
        buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
        for snapshot in wanted.snapshots():
            if wanted.takes_states(snapshot):
                found += self._differences(wanted.state_before(snapshot), snapshot, is_followed=True)
                continue
            for entry in change_files(table, snapshot, shown.source):
                buckets.setdefault(entry.bucket_id, []).append(entry)
        found += delta_parts(buckets.values())
        return marked(partitions_of(found), changes_read(table, *self._versions(wanted.first, wanted.last)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes of a partition, in a worker."""
        return self._rows.read(partition)

    def _versions(
        self, first: RangeEnd | None, last: RangeEnd | None
    ) -> tuple[TableVersion | None, TableVersion | None]:
        """The ends of a range, whose snapshots may have expired."""
        snapshots = self._rows.table.snapshots
        newest = version_of(snapshots.latest()) if last is None else _version(last, snapshots)
        return None if first is None else _version(first, snapshots), newest

    def _after(self) -> RangeName:
        if self._shown.after is not None:
            return self._shown.after
        table, tag = self._rows.table, self._shown.up_to
        assert isinstance(tag, str), "a range without a begin ends at a tag"
        table.snapshots.tag(tag)
        periods = TagPeriods.of(table.schema.options)
        own = periods.time_of(tag)
        times = [time for name in table.snapshots.tags() if (time := periods.time_of(name)) is not None]
        before = [time for time in times if own is not None and time < own]
        if not before:
            raise InvalidRequestError(
                f"{TO_AUTO_TAG.key}={tag} of table {table.name}: there is no automatic tag before it; name the range "
                f"with incremental-between, such as 0,{tag}"
            )
        return periods.name_of(max(before))

    def _differences(self, old: Snapshot | None, new: Snapshot | None, *, is_followed: bool = False) -> list[Part]:
        return [*difference_parts(self._rows.table, old, new, is_followed=is_followed)]


def _version(end: RangeEnd, snapshots: SnapshotManager) -> TableVersion | None:
    found = end.snapshot or (snapshots.find(end.number) if end.number else None)
    if found is None:
        return TableVersion(snapshot_id=end.number) if end.number else None
    return version_of(found)

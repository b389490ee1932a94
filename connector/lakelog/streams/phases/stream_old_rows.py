"""Where a stream looks up the rows before its changes: a leased snapshot that is not ahead of it, and the log after it.

The newest snapshot is ahead of a batch: it already holds rows that the batch is about to give.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import takewhile

from lakelog.common.errors import CorruptDataError, NotFoundError, UnsupportedError
from lakelog.filestore.metadata.manifests import DataFileMeta
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.options import CHANGELOG_PRODUCER, ChangelogProducer
from lakelog.logstore.options import ChangelogMode
from lakelog.protocol.reading import BucketBase, NormalizedRange
from lakelog.protocol.stores import LogTarget
from lakelog.streams.options.normalize_option import SCAN_NORMALIZE
from lakelog.streams.options.stream_read import StreamRead
from lakelog.streams.reading.lease import snapshot_lease
from lakelog.streams.reading.offsets import LogOffset

_WITH_OLD_VALUES = (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION)


def looks_up_old_rows(table: TableStore, target: LogTarget | None, options: StreamRead) -> bool:
    """Whether a stream must look up old rows: they are asked for, and its source has none.

    Raises UnsupportedError for an eventual log, and for a table without a log whose changes have no old rows.
    """
    if not options.normalizes or not table.schema.primary_keys:
        return False
    if target is not None and not target.topic.is_transactional:
        raise UnsupportedError(
            f"table {table.name} has log.consistency=eventual: its log may repeat records, and be ahead of its files "
            f"or behind them, so {SCAN_NORMALIZE.key} cannot look up old rows; leave it out, or use "
            "log.consistency=transactional"
        )
    if target is not None:
        return target.mode is ChangelogMode.UPSERT
    producer = CHANGELOG_PRODUCER.of(table.schema.options)
    if producer not in _WITH_OLD_VALUES:
        raise UnsupportedError(
            f"table {table.name} has no log and changelog-producer={producer}: its files hold no old values, and "
            f"{SCAN_NORMALIZE.key} looks them up for a log alone; set changelog-producer=lookup, which writes them"
        )
    return False


class OldRows:
    """Finds the base of a batch, the snapshot in which old rows are looked up; holds it until there is a later one."""

    def __init__(self, table: TableStore) -> None:
        """Hold nothing yet."""
        self._table = table
        self._lease = snapshot_lease(table)
        self._known: tuple[LogOffset, LogOffset] | None = None

    def base_of(
        self, start: LogOffset, newer: Iterable[LogOffset], position_of: Callable[[Snapshot], LogOffset]
    ) -> LogOffset:
        """The newest living snapshot whose log offsets are not ahead of `start`, leased; 0 stands for the empty table.

        `newer` are the positions of the living snapshots after `start.consumed`, oldest first. Raises NotFoundError if
        it has expired, CorruptDataError for a `start` that contradicts itself.
        """
        if self._known is None or self._known[0] != start:
            if self._known is None:  # hold the snapshot before searching for it
                self._lease.hold(max(start.consumed, 1))
            self._known = start, self._find(start, newer, position_of)
        base = self._known[1]
        self._lease.hold(max(base.consumed, 1))
        return base

    def _find(
        self, start: LogOffset, newer: Iterable[LogOffset], position_of: Callable[[Snapshot], LogOffset]
    ) -> LogOffset:
        passed = list(takewhile(lambda one: _is_passed(one, start), newer))
        if passed:
            return passed[-1]
        if not start.consumed and (self._table.snapshots.earliest_id() or 1) > 1 and any(start.offsets.values()):
            raise NotFoundError(
                f"no living snapshot of table {self._table.name} is at or before the log offsets {dict(start.offsets)}"
                f" of this query: {SCAN_NORMALIZE.key} looks up old rows in one; start the query at later offsets, or "
                "with the rows of a snapshot (log.scan=full)"
            )
        if not start.consumed:
            nothing = dict.fromkeys(start.offsets, 0)
            return LogOffset(topic_id=start.topic_id, offsets=nothing, counts={}, consumed=0)
        try:
            base = position_of(self._table.snapshots.get(start.consumed))
        except NotFoundError as error:
            raise NotFoundError(
                f"snapshot {start.consumed} of table {self._table.name}, the newest one that is not ahead of this "
                f"query, has expired; {SCAN_NORMALIZE.key} would look up old rows in it. A stream keeps it for a day "
                "after it has stopped; start the query with a new checkpoint location, which reads the newest "
                "snapshot first"
            ) from error
        if not _is_passed(base, start):
            raise CorruptDataError(
                f"the checkpoint has read snapshot {start.consumed} of table {self._table.name} whole, and the log up "
                f"to {dict(start.offsets)} only, but the snapshot holds it up to {dict(base.offsets)}: it was edited, "
                "or the table was rolled back; start the query with a new checkpoint location"
            )
        return base

    def ranges(self, base: LogOffset, wanted: Sequence[tuple[int, int, int]]) -> list[NormalizedRange]:
        """The ranges `wanted` of the log, each (bucket, start, end), with what tasks need from the base."""
        files = self._files(base, {bucket for bucket, _, _ in wanted})
        return [
            NormalizedRange(
                bucket=bucket,
                start=start,
                end=end,
                base=BucketBase(offset=base.offsets.get(bucket, 0), files=files.get(bucket, {})),
            )
            for bucket, start, end in wanted
        ]

    def _files(self, base: LogOffset, buckets: Collection[int]) -> dict[int, dict[bytes, list[DataFileMeta]]]:
        """The files of the base: bucket -> partition -> files."""
        found: dict[int, dict[bytes, list[DataFileMeta]]] = {}
        if base.consumed:
            for entry in self._table.live_files.of(self._table.snapshots.get(base.consumed)).entries():
                if entry.bucket in buckets:
                    found.setdefault(entry.bucket, {}).setdefault(entry.partition, []).append(entry.file)
        return found


def _is_passed(position: LogOffset, start: LogOffset) -> bool:
    return all(offset <= start.offsets.get(bucket, 0) for bucket, offset in position.offsets.items())

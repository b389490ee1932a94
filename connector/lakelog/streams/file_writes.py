"""The writes of a Python writer to a table without a log: each is a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from lakelog.filestore import FileStoreTable
from lakelog.filestore.commit import CommitRequest, batch_properties
from lakelog.filestore.metadata.snapshots import Snapshot, forgotten_millis, parse_users
from lakelog.filestore.metadata.tables import carried_by
from lakelog.filestore.write import RowInput, StatementChanges
from lakelog.protocol.state import TablePosition, digest_of_sources, sources_of
from lakelog.streams.writes import Lineage


@dataclass(slots=True)
class FileWrites:
    """The writes of one name, in this process. Nothing of them waits for a snapshot. See `WriteLog`."""

    user: str
    table: FileStoreTable
    check_run: Callable[[], None]
    number: int = -1
    sources: dict[str, int] = field(default_factory=dict)
    is_forgotten: bool = False
    pending: tuple[str, ...] = ()
    file_count: int = 0
    size_bytes: int = 0
    _has_begun: bool = False

    def begin(self) -> None:
        """Find the last write of the name."""
        if self._has_begun:
            return
        self.check_run()
        self._find(self.table.snapshots.latest())
        self._has_begun = True

    def write(
        self, changes: StatementChanges, sources: Mapping[str, int], lineage: Lineage | None = None
    ) -> tuple[TablePosition, Snapshot]:
        """Commit a write in one snapshot, and leave what is due behind it to the caller.

        Behind an error the next call looks for it: the write may be in the table.
        """
        self.begin()
        self._has_begun = False

        def named(request: CommitRequest, latest: Snapshot | None) -> CommitRequest:
            before = self.number
            self._find(latest)
            if self.number != before:  # by another process of the name
                self.check_run()
            number = self.number + 1
            digest = digest_of_sources({**self.sources, **sources})
            properties = batch_properties(self.table, latest, user=self.user, identifier=number, digest=digest)
            assert properties is not None, "the number is that behind the last one"
            return replace(request, commit_user=self.user, commit_identifier=number, properties=properties)

        rows = RowInput(schema=changes.rows.schema, table=changes.rows)
        table = self.table if lineage is None else replace(self.table, lineage=lineage)
        snapshot = table.write(rows, kinds=changes.kinds, named=named, keeps_up=False)
        self.number += 1
        self.sources |= sources
        self._has_begun = True
        return TablePosition.of_snapshot(self.table, snapshot), snapshot

    def position(self) -> TablePosition:
        """The position of the newest snapshot."""
        return TablePosition.of_snapshot(self.table, self.table.snapshots.latest())

    def take_in(self) -> None:
        """Nothing waits."""

    def pause(self, *, is_idle: bool) -> None:
        """Other processes do not wait for this one."""

    def close(self) -> None:
        """Nothing is open."""

    def _find(self, latest: Snapshot | None) -> None:
        carried = carried_by(self.table, latest).properties
        last = parse_users(carried).get(self.user)
        self.is_forgotten = last is None and forgotten_millis(carried) is not None
        self.number = -1 if last is None else last.identifier
        self.sources = sources_of(last)

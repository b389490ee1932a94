"""The ports of the protocol to the two stores; a simulation can implement them too.

Errors that the ports raise and that the protocol handles: FencedError (another producer owns the bucket),
UnknownOutcomeError (a transaction may or may not be committed), TransactionTimeoutError (the broker has aborted a
transaction that was too slow), StalledError (an open transaction hides the end of the tail), ConflictError (a COMPACT's
inputs were replaced). Everything else ends the attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from lakelog.filestore.compact import CompactResult
from lakelog.filestore.metadata.snapshots import CommitUser
from lakelog.protocol.state.header import BucketFile, CommitHeader, LogMark, StagedPart
from lakelog.protocol.state.prepared import PreparedCommit
from lakelog.protocol.state.state import Batch, LogPosition, LogState, TableState
from lakelog.protocol.state.transaction_ends import TransactionEnd

Rows_contra = TypeVar("Rows_contra", contravariant=True)
Payload = TypeVar("Payload")
Payload_contra = TypeVar("Payload_contra", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartBase:
    """The state of a bucket when its part of a batch is made: a snapshot, 0 before the first, and the tail after it.

    `tail` has headers in log order. The part's rows have sequence numbers from `first_sequence` on: while this stays,
    the rows of the bucket stay too. `written` says which rows of the batch are in the table already, from before a
    rescale: numbers of buckets, each with the buckets whose rows are left out.
    """

    first_sequence: int
    snapshot_id: int
    tail: tuple[CommitHeader, ...]
    written: tuple[tuple[int, frozenset[int]], ...] = ()


def _are_durable() -> None:
    """Nothing is to be done for files that were made durable when they were written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedBucket(Generic[Payload]):
    """A bucket's part of a batch, ready to be logged: its files are written, its records are encoded.

    `record_count` is 1 for a part with files but no changes to log: its header record. `age_seconds` gives the time
    since the first file was begun. `make_durable` is called before the log names the files. `removed` are files with
    rows that a batch statement takes out of the table. `mark` says that files have changes that are not in the records.
    """

    files: tuple[BucketFile, ...]
    changelog: tuple[BucketFile, ...]
    record_count: int
    size_bytes: int
    payload: Payload
    age_seconds: Callable[[], float]
    make_durable: Callable[[], None] = _are_durable
    removed: tuple[BucketFile, ...] = ()
    mark: LogMark | None = None

    @property
    def is_empty(self) -> bool:
        """True when the part changes neither log nor files."""
        return not (self.record_count or self.files or self.changelog or self.removed)

    def header(
        self,
        batch: Batch,
        *,
        table_uuid: str,
        schema_id: int,
        base_snapshot_id: int,
        statement: str | None = None,
        parts: Mapping[int, StagedPart] | None = None,
    ) -> CommitHeader:
        """The header of its transaction: of a batch, a batch statement, or a write, which has the `parts` of all."""
        return CommitHeader(
            table_uuid=table_uuid,
            user=batch.user,
            identifier=batch.identifier,
            source_digest=batch.source_digest,
            schema_id=schema_id,
            base_snapshot_id=base_snapshot_id,
            record_count=self.record_count,
            size_bytes=self.size_bytes,
            files=self.files,
            changelog=self.changelog,
            lineage=batch.lineage,
            statement=statement,
            watermark_millis=batch.watermark_millis,
            removed=self.removed,
            mark=self.mark,
            parts=parts or {},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTransaction:
    """A committed transaction found in the log; `end_offset` is its last record's offset plus one."""

    header: CommitHeader
    first_offset: int
    end_offset: int
    record_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTail:
    """The committed transactions from a position to the high watermark, in log order.

    The log had reached `epoch_offset` while `leader_epoch` was current.
    """

    transactions: tuple[LoggedTransaction, ...]
    high_watermark: int
    leader_epoch: int | None
    epoch_offset: int = 0


class Producer(Protocol[Payload_contra]):
    """The transactional producer that owns one bucket until another one fences it."""

    def begin(self, payload: Payload_contra, header: CommitHeader) -> None:
        """Open a transaction for these records; the first one is to carry the header.

        Invalid records are refused here, before anything is logged.
        """
        ...

    def produce(self) -> None:
        """Send the records."""
        ...

    def flush(self) -> None:
        """Wait until the broker has all records; it aborts a transaction that stays open for too long."""
        ...

    def commit(self) -> int:
        """Commit; returns the last record's offset plus one."""
        ...

    def close(self) -> None:
        """Close the producer; an open transaction is left for the next owner to abort."""
        ...


class BucketLog(Protocol[Payload]):
    """The log of one table."""

    def fence(self, bucket: int, *, patience: int) -> Producer[Payload]:
        """A new producer for `bucket`: it aborts the open transaction of the older producer, and fences that one.

        `patience` is the number of transactions of this part that were too slow for the broker: the next one may take
        longer.
        """
        ...

    def fits(self, producer: Producer[Payload]) -> bool:
        """Whether a kept producer may take as long as this part of the batch needs."""
        ...

    def read_tail(self, bucket: int, position: LogPosition) -> BucketTail:
        """Every committed transaction from a position up to the present high watermark."""
        ...


class TableFiles(Protocol):
    """The file store for all that read a tail."""

    def newest(self) -> TableState:
        """The newest snapshot, read now."""
        ...

    def first_missing(self, bucket: int, files: Iterable[BucketFile]) -> str | None:
        """The path of the first of these files that is missing; None if none is."""
        ...


class BucketFiles(TableFiles, Protocol[Rows_contra, Payload]):
    """The file store for a task of a batch."""

    def prepare(self, bucket: int, rows: Rows_contra, base: PartBase) -> PreparedBucket[Payload]:
        """Validate, sort and write level-0 files, and encode the log records. Logs nothing.

        Raises NotFoundError if old rows are looked up in files that have expired.
        """
        ...


class StatementFiles(TableFiles, Protocol[Payload]):
    """The file store for a task of batch statements."""

    def prepare_staged(
        self, bucket: int, part: StagedPart, base: PartBase, *, has_moved: bool
    ) -> PreparedBucket[Payload]:
        """Encode the log records of a staged part; if the bucket has moved since, write its files again.

        Raises like `BucketFiles.prepare`.
        """
        ...


class StatementList(Protocol):
    """The prepared commits of one table. See `prepared.PreparedCommits`."""

    def names(self) -> list[str]:
        """The names of all prepared commits."""
        ...

    def read(self, name: str) -> PreparedCommit:
        """The prepared commit. Raises NotFoundError for a deleted one."""
        ...

    def mark_cancelled(self, name: str) -> None:
        """Mark a statement as cancelled: from now on its own driver logs nothing more."""
        ...

    def is_marked(self, name: str) -> bool:
        """Whether a statement is being cancelled."""
        ...

    def exists(self, name: str) -> bool:
        """Whether the prepared commit still exists."""
        ...

    def delete(self, name: str) -> None:
        """Delete the prepared commit, then its mark."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChange:
    """What an APPEND snapshot adds. `files` and `changelog` are (bucket, file) in log order.

    `watermark_millis` is the latest watermark of its batches; None without one.
    The rows of the files `removed` are taken out of the table and of `files`. `untracked` names the changes that are in
    no record of the log: user, identifier, bucket and mark. `ends` are those of `transaction_ends.ends_in`,
    `properties` are more properties of the snapshot.
    """

    files: Sequence[tuple[int, BucketFile]]
    changelog: Sequence[tuple[int, BucketFile]]
    users: Mapping[str, CommitUser]
    log: LogState | None
    lineage: Sequence[Mapping[str, object]]
    watermark_millis: int | None = None
    removed: Sequence[tuple[int, BucketFile]] = ()
    untracked: Sequence[Mapping[str, object]] = ()
    ends: Mapping[int, Sequence[TransactionEnd]] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)


Decide = Callable[[TableState], SnapshotChange | None]


class Snapshots(Protocol):
    """The file store for the driver."""

    def newest(self) -> TableState:
        """The newest snapshot, read now."""
        ...

    def took_in(self, user: str, *, after: int) -> bool | None:
        """Whether a snapshot after a number took a statement in; None if snapshots that may have done so expired."""
        ...

    def append(self, batch: Batch, decide: Decide) -> int | None:
        """Make an APPEND snapshot; returns its id.

        `decide` is called at every attempt with the newest state; if it returns None, there is nothing to commit. Its
        errors are raised unchanged.
        """
        ...

    def compact(self, batch: Batch, buckets: Sequence[CompactResult]) -> int:
        """Make a COMPACT snapshot; returns its id. Raises ConflictError when an input was replaced."""
        ...

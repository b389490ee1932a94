"""What becomes of an attempt to write a bucket: its answer, the errors after which it is made again, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from lakelog.common.errors import (
    ConflictError,
    FencedError,
    NotFoundError,
    StalledError,
    TransactionTimeoutError,
    UnavailableError,
    UnknownOutcomeError,
)
from lakelog.common.patience import Patience
from lakelog.filestore.metadata.tables import AGE_MILLIS_MIN
from lakelog.logstore.kafka.clients.transaction_timeout import TIMEOUT_MILLIS_MAX
from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.state.ports import PreparedBucket, Producer, TableFiles

Payload = TypeVar("Payload")
FENCINGS_MAX = 1  # by other streams: two of them stop each other
FENCINGS_MAX_BESIDE_WRITERS = 20  # which fence a stream in passing

# A logged header must not name a file that may be removed as an orphan. When a transaction is about to be committed, it
# is open at the broker, which aborts it at the latest after TIMEOUT_MILLIS_MAX, and its files are younger than this: so
# they are younger than orphans when it takes effect, however long the process sleeps in between.
_SPARE_MILLIS = 300_000  # brokers check periodically for transactions past their time-out, by default every 10 s
FILES_AGE_SECONDS_MAX = (AGE_MILLIS_MIN - TIMEOUT_MILLIS_MAX - _SPARE_MILLIS) / 1000


class OvertakenError(ConflictError):
    """Other writers have advanced the bucket since it was read, and its log or files have expired: read again."""


def sent(producer: Producer[Payload], bucket: int, part: PreparedBucket[Payload]) -> None:
    """Send the records of a transaction that was begun; meanwhile the files that its header names become durable.

    Raises OldFilesError, also for a file that was removed meanwhile, and what the ports raise.
    """
    producer.produce()
    try:
        part.make_durable()
    except NotFoundError as error:  # by a removal of orphans, or with the folder of a table that was renamed or dropped
        raise OldFilesError(
            f"bucket {bucket}: a file of the batch was removed before the log named it: {error}"
        ) from error
    producer.flush()
    check_young(bucket, part.age_seconds())


@contextmanager
def made_on(files: TableFiles, snapshot_id: int) -> Iterator[None]:
    """Make a part on a snapshot. Raises OvertakenError where files of it have expired, since there is a newer one."""
    try:
        yield
    except NotFoundError as error:
        if files.newest().snapshot_id == snapshot_id:
            raise
        raise OvertakenError from error


class StaleAttemptError(ConflictError):
    """The batch is already in a snapshot: this attempt is a leftover and must change nothing."""


class OldFilesError(UnavailableError):
    """Files are so old that they may be removed as orphans before the log names them: write them again."""


_AGAIN_MAX: dict[type[UnavailableError], int] = {
    UnknownOutcomeError: 3,
    TransactionTimeoutError: 2,
    StalledError: 1,
    OldFilesError: 2,
}
"""How often an attempt is made again after each of these; after other errors of a service, for a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAnswer:
    """What a task reports to the driver about one bucket.

    `transactions` are the headers between `base` and `end` in the log, in log order, including that of this batch
    unless the snapshot already has it. Equal `base` and `end` mean that there is nothing to take in. `is_decided` says
    that the log has decided on the transactions: the writer of the next snapshot takes them in. Records of an eventual
    log decide nothing. `unfinished` names batch statements in the tail that must be finished first: nothing was logged.
    `ends` are the ends of the transactions in the log; without them, as where records decide nothing, it is empty.
    `goes_on` says that the answer begins where the driver's knowledge of the bucket ends, and not at a snapshot.
    """

    bucket: int
    base: int
    end: int
    leader_epoch: int | None
    transactions: tuple[CommitHeader, ...]
    has_fenced: bool
    epoch_offset: int = 0
    is_decided: bool = True
    unfinished: tuple[str, ...] = ()
    ends: tuple[int, ...] = ()
    goes_on: bool = False

    @classmethod
    def nothing(cls, bucket: int, offset: int) -> BucketAnswer:
        """The answer for a bucket of which a snapshot at an offset has everything."""
        return cls(bucket=bucket, base=offset, end=offset, leader_epoch=None, transactions=(), has_fenced=False)


def retried(
    attempt: Callable[[int], BucketAnswer],
    *,
    patience: Patience,
    fencings_max: int,
    fenced_text: Callable[[], str],
    timeouts: int = 0,
    back_off: Callable[[int], None] = lambda _fencings: None,
) -> BucketAnswer:
    """The final result of `attempt`; each try begins with a fence, and finds in the tail what the one before logged.

    `attempt` is called with the number of transactions that were too slow, at first `timeouts`; `back_off` is called
    before the next attempt with how often it was fenced.
    Raises FencedError with `fenced_text` once it was fenced more than `fencings_max` times, and like `write_bucket`.
    """
    fencings = 0
    counts: Counter[type[UnavailableError]] = Counter({TransactionTimeoutError: timeouts})
    while True:
        try:
            return attempt(counts[TransactionTimeoutError])
        except FencedError as error:
            fencings += 1
            if fencings > fencings_max:
                raise FencedError(fenced_text()) from error
            back_off(fencings)
        except OvertakenError:
            continue
        except tuple(_AGAIN_MAX) as error:
            counts[type(error)] += 1
            if counts[type(error)] > _AGAIN_MAX[type(error)]:
                raise
        except UnavailableError as error:
            patience.bear(error)


def is_young(age_seconds: float) -> bool:
    """True for files that cannot reach the age of orphans before a transaction that is open now has ended."""
    return age_seconds < FILES_AGE_SECONDS_MAX


def check_young(bucket: int, age_seconds: float) -> None:
    """Raise OldFilesError for files that may be removed as orphans before the log names them."""
    if not is_young(age_seconds):
        raise OldFilesError(
            f"bucket {bucket}: the first file of the batch was written {age_seconds:.0f} s ago, at most "
            f"{FILES_AGE_SECONDS_MAX:.0f} s are allowed: the files may be removed as orphans. The machine was asleep, "
            "or the batch is too large: write smaller batches"
        )

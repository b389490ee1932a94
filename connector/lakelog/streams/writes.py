"""What a writer needs of a table: its writes, through a log or through files alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import Protocol

import pyarrow as pa

from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.write import StatementChanges
from lakelog.protocol.state import TablePosition

Lineage = Mapping[str, object]
"""What a write was made from, as its commit records it."""

CheckRows = Callable[[pa.Table, pa.Array | int | None], StatementChanges]
"""Gives the changes of rows and their row kinds. Raises InvalidRequestError."""

_CALL_BYTES = 4 << 10  # of a table of Arrow, a future and what names them, however few the rows


class Writes(Protocol):
    """The writes of one name, through a log or through files. See `WriteLog`."""

    @property
    def sources(self) -> Mapping[str, int]:
        """The last identifiers of the sources of the name."""
        ...

    @property
    def is_forgotten(self) -> bool:
        """Whether the table may have dropped them."""
        ...

    @property
    def pending(self) -> Sequence[str]:
        """The writes that no snapshot has."""
        ...

    @property
    def file_count(self) -> int:
        """The number of their data files."""
        ...

    @property
    def size_bytes(self) -> int:
        """The bytes of their data files."""
        ...

    def begin(self) -> None:
        """Finish what earlier processes of the name have left."""
        ...

    def write(
        self, changes: StatementChanges, sources: Mapping[str, int], lineage: Lineage | None = None
    ) -> tuple[TablePosition, Snapshot | None]:
        """Write changes whole; returns the position that shows them, and the snapshot if each write makes one.

        Without a `lineage` it is that of the handle.
        """
        ...

    def position(self) -> TablePosition:
        """A position that shows all writes of this process."""
        ...

    def take_in(self) -> Snapshot | None:
        """Make the snapshot of what waits for one."""
        ...

    def pause(self, *, is_idle: bool) -> None:
        """Give way to other processes, between writes, or where nothing is to be written."""
        ...

    def close(self) -> None:
        """Give up what is open."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueuedWrite:
    """One call of `TableWriter.write_later`. Its future cannot be cancelled: the write may be in the table already.

    Its rows are checked by then (`changes`), or together with those that it is joined with.
    """

    rows: pa.Table
    kinds: pa.Array | int | None
    source: str
    identifier: int | None
    changes: StatementChanges | None = None
    lineage: Lineage | None = None
    done: Future[TablePosition] = field(default_factory=Future)

    def __post_init__(self) -> None:
        """Let no caller cancel it, such as a task of asyncio that is cancelled while it waits."""
        self.done.set_running_or_notify_cancel()

    @property
    def size_bytes(self) -> int:
        """The memory of its rows, and of the call."""
        return int(self.rows.nbytes) + _CALL_BYTES

    @property
    def form(self) -> object:
        """What is equal for calls whose rows are checked together."""
        is_alone = self.changes is not None or isinstance(self.kinds, pa.Array | pa.ChunkedArray)
        return self if is_alone else (self.rows.schema, self.kinds)


def joined_changes(calls: Iterable[QueuedWrite], check: CheckRows) -> StatementChanges | None:
    """The changes of calls, one after the other; a call whose rows do not fit ends with its error.

    To check the rows of a hundred calls one by one takes most of the time of their threads.
    """
    found = list(chain.from_iterable(_checked(list(run), check) for _, run in groupby(calls, lambda one: one.form)))
    return StatementChanges.joined(found) if len(found) > 1 else next(iter(found), None)


def _checked(calls: Sequence[QueuedWrite], check: CheckRows) -> list[StatementChanges]:
    first, *others = calls
    if first.changes is not None:
        return [first.changes]
    try:
        return [check(pa.concat_tables([one.rows for one in calls]) if others else first.rows, first.kinds)]
    except Exception as error:  # noqa: BLE001  # the caller whose rows they are gets it
        if others:
            return [found for one in calls for found in _checked([one], check)]
        first.done.set_exception(error)
        return []

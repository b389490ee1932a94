"""A writer in this process: many small writes of threads and tasks become few transactions, or few snapshots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Self  # Any: values of rows

import pyarrow as pa

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import shown
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.write import RowKinds, Rows, parsed_kinds
from lakelog.protocol.state import TablePosition
from lakelog.protocol.writing import IntervalBounds
from lakelog.streams.write_loop import WriteLoop
from lakelog.streams.writes import CheckRows, Lineage, QueuedWrite, Writes

MadeFrom = str | Sequence[str]
_IDENTIFIERS = range(1 << 63)
GivenRows = Rows | Mapping[str, Any] | Sequence[Mapping[str, Any]]


class TableWriter:
    """Writes of a service to a table: each is whole in the table or not there, also after a kill of the process.

    Threads and tasks may share it. See `Table.writer`.
    """

    def __init__(
        self,
        writes: Writes,
        *,
        name: str,
        table_name: str,
        rows_of: Callable[[GivenRows], pa.Table],
        check: CheckRows,
        bounds: IntervalBounds | None,
        linger_seconds: float,
        memory_max: int,
        after_snapshot: Callable[[Snapshot], None],
        lineage_of: Callable[[tuple[str, ...]], Lineage | None],
    ) -> None:
        """Start the thread that writes. `bounds` say when a snapshot is made.

        `lineage_of` gives the lineage of the sources that a write names, None without any.
        """
        self.name = name
        self._of = table_name
        self._rows_of = rows_of
        self._check = check
        self._lineage_of = lineage_of
        self._loop = WriteLoop(
            writes,
            name=name,
            check=check,
            bounds=bounds,
            linger_seconds=linger_seconds,
            memory_max=memory_max,
            after_snapshot=after_snapshot,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await asyncio.to_thread(self.close)

    def __repr__(self) -> str:
        return f"writer {self.name!r} of table {self._of}"

    def write(
        self,
        rows: GivenRows,
        kinds: RowKinds | None = None,
        *,
        source: str = "",
        identifier: int | None = None,
        made_from: MadeFrom = (),
    ) -> TablePosition:
        """Write rows; returns once the log has them, or without a log the snapshot.

        `rows` are as in `Table.write`, or a dictionary, or a list of dictionaries; `kinds` are row kinds, one for all
        rows or one a row. With an `identifier`, a number that goes up from write to write of its `source`, such as an
        offset, a write whose identifier is not above the last one that the table has changes nothing: a caller that
        was killed repeats what it does not know of. The answer is a position, for reads that must show the write:
        `table.to_arrow(fresh=True, at_least=position)`. `made_from` are the sources of the rows, such as
        `db.orders@12`, for the lineage of the commit; without them it is that of the table's handle. Raises
        InvalidRequestError for rows that do not fit, ConflictError once another process has the writer's name,
        UnknownOutcomeError where the write may still get into the table: then `last_identifier` says where its source
        goes on, and is asked before the next write of it.
        """
        return self.write_later(rows, kinds, source=source, identifier=identifier, made_from=made_from).result()

    def write_later(
        self,
        rows: GivenRows,
        kinds: RowKinds | None = None,
        *,
        source: str = "",
        identifier: int | None = None,
        made_from: MadeFrom = (),
    ) -> Future[TablePosition]:
        """As `write`, but returns a future at once, which cannot be cancelled.

        Rows that do not fit the table end the future with an error, those of a write with an identifier this call.
        Waits while `memory_max` bytes of rows wait to be written.
        """
        check_identifier(source, identifier)
        names = (made_from,) if isinstance(made_from, str) else tuple(made_from)
        given, own = self._rows_of(rows), parsed_kinds(kinds)
        # A write that is refused has no identifier in its source: that must be known before the next call.
        changes = None if identifier is None else self._check(given, own)
        one = QueuedWrite(
            rows=given,
            kinds=own,
            source=source,
            identifier=identifier,
            changes=changes,
            lineage=self._lineage_of(names),
        )
        self._loop.add(one)
        return one.done

    async def write_async(
        self,
        rows: GivenRows,
        kinds: RowKinds | None = None,
        *,
        source: str = "",
        identifier: int | None = None,
        made_from: MadeFrom = (),
    ) -> TablePosition:
        """As `write`, for tasks of asyncio; other tasks run meanwhile. A task that is cancelled leaves its write be."""
        begin = partial(self.write_later, rows, kinds, source=source, identifier=identifier, made_from=made_from)
        begun = await asyncio.to_thread(begin) if self._loop.may_wait else begin()
        return await asyncio.wrap_future(begun)

    def last_identifier(self, source: str = "") -> int | None:
        """The identifier of the last write of a source that the table has; None for none yet.

        What earlier processes of the name have left is finished before. Raises InvalidRequestError where the table may
        have forgotten it (`users.time-retained`).
        """
        return self._loop.last_identifier(source).result()

    def flush(self) -> None:
        """Wait until all writes that were begun have ended, and make the snapshot of what has none."""
        self._loop.flush().result()

    def close(self) -> None:
        """Flush, and end the thread. Raises what the last snapshot raises; the log has the writes then."""
        self._loop.close()


def check_identifier(source: str, identifier: int | None) -> None:
    """Raise InvalidRequestError for what names no place in a source."""
    if not isinstance(source, str):
        raise InvalidRequestError(f"source is {shown(source)}; expected a name, such as 'orders-0'")
    is_number = isinstance(identifier, int) and not isinstance(identifier, bool)
    if identifier is not None and not (is_number and identifier in _IDENTIFIERS):
        raise InvalidRequestError(
            f"identifier is {shown(identifier)}; expected a whole number from 0 on that goes up from write to write of "
            "its source, such as an offset"
        )
    if source and identifier is None:
        raise InvalidRequestError(f"source is {shown(source)}, and there is no identifier; give the write both")

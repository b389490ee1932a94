"""The rows of a table by key, in memory, kept as the table is: a stream that a thread of this process reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, Self  # Any: values of rows

import pyarrow as pa

from lakelog.common.errors import InvalidRequestError, UnavailableError
from lakelog.common.quoting import listed
from lakelog.common.types import ROW_KIND_COLUMN
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.protocol.state import TablePosition
from lakelog.streams.change_batch import ChangeBatch
from lakelog.streams.follower import ChangeStream

if TYPE_CHECKING:
    import polars as pl

_POLL_SECONDS = 0.5
_REMOVED = ("-D", "-U")


class LiveRows:
    """The rows of a table by primary key. `get` answers from memory, with what was committed some milliseconds ago.

    An error of the stream, such as one of Kafka or of a log that has lost records, ends it; then each call raises the
    error: an answer is never older than the stream is.
    """

    def __init__(
        self,
        changes: ChangeStream,
        *,
        key: Sequence[str],
        schema: pa.Schema,
        rows_max: int,
        keeps_first: bool = False,
        keys: Iterable[Mapping[str, Any]] | None = None,
        passing: Callable[[pa.Table], pa.Array] | None = None,
    ) -> None:
        """Read what the table has now, then follow it in a thread. Raises what the stream raises.

        `key` are the columns of the key, and `schema` those of the rows. `keeps_first` says that of the rows of a key
        the first one counts. With `keys` only rows with these keys are held, with `passing` only rows that pass it: a
        row that passes no longer is taken out. Raises InvalidRequestError for other keys.
        """
        self._changes = changes
        self._key = tuple(key)
        self._schema = schema
        self._columns = [ROW_KIND_COLUMN, *schema.names]
        self._rows_max = rows_max
        self._keeps_first = keeps_first
        self._wanted = None if keys is None else frozenset(map(self._key_of, keys))
        self._rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._position = changes.reached
        self._changed = Condition()
        self._passing = passing
        self._error: Exception | None = None
        self._is_closed = False
        self._load()
        self._thread = Thread(target=self._run, name="lakelog-live", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __len__(self) -> int:
        with self._changed:
            self._check()
            return len(self._rows)

    @property
    def position(self) -> TablePosition:
        """How far the table is read."""
        with self._changed:
            self._check()
            return self._position

    def get(self, key: Mapping[str, Any] | object) -> dict[str, Any] | None:
        """The row with a key, by column; None without one. A key of one column may be given as its value."""
        wanted = self._key_of(key)
        with self._changed:
            self._check()
            found = self._rows.get(wanted)
        return None if found is None else dict(found)

    def wait(self, position: TablePosition | Snapshot | str, timeout: float = 10.0) -> None:
        """Wait until what a position has is in memory: that of a read, or the snapshot that a write has returned.

        Raises UnavailableError after `timeout` seconds.
        """
        wanted = TablePosition.given(self._changes.table, position)
        deadline = time.monotonic() + timeout
        with self._changed:
            while not self._position.covers(wanted):
                self._check()
                left = deadline - time.monotonic()
                if left <= 0:
                    raise UnavailableError(
                        f"the rows in memory have not reached the position {wanted} within {timeout} s; they are at "
                        f"{self._position}"
                    )
                self._changed.wait(left)
            self._check()

    def to_arrow(self) -> pa.Table:
        """A copy of the rows, in no order."""
        with self._changed:
            self._check()
            rows = list(self._rows.values())
        return pa.Table.from_pylist(rows, schema=self._schema)

    def to_polars(self) -> pl.DataFrame:
        """A copy of the rows as a polars frame, in no order."""
        import polars as pl  # noqa: PLC0415  # loads slowly

        found = pl.from_arrow(self.to_arrow())
        assert isinstance(found, pl.DataFrame)
        return found

    def close(self) -> None:
        """End the thread and the stream, and forget the rows."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        self._changes.close()
        with self._changed:
            self._rows.clear()

    def _load(self) -> None:
        """Read until the rows are those of one state of the table."""
        try:
            while (batch := self._changes.poll(0)) is not None:
                self._apply(batch)
                if batch.complete:
                    break
            else:
                self._position = self._changes.reached
        except BaseException:
            self._changes.close()
            raise

    def _run(self) -> None:
        while not self._is_closed and self._error is None:
            try:
                batch = self._changes.poll(_POLL_SECONDS)
                with self._changed:
                    if batch is None:
                        self._position = self._changes.reached
                    else:
                        self._apply(batch)
                    self._changed.notify_all()
            except Exception as error:  # noqa: BLE001  # whatever ends the stream: each call raises it
                with self._changed:
                    self._error = error
                    self._changed.notify_all()

    def _apply(self, batch: ChangeBatch) -> None:
        passes = None if self._passing is None else self._passing(batch.rows).to_pylist()
        for at, row in enumerate(batch.rows.select(self._columns).to_pylist()):
            kind = row.pop(ROW_KIND_COLUMN)
            key = tuple(row[name] for name in self._key)
            if self._wanted is not None and key not in self._wanted:
                continue
            if kind in _REMOVED or (passes is not None and not passes[at]):
                self._rows.pop(key, None)
            elif not (self._keeps_first and key in self._rows):
                self._rows[key] = row
        if len(self._rows) > self._rows_max:
            raise InvalidRequestError(
                f"table {self._changes.table.name} has more than {self._rows_max} rows: give `rows_max` a larger "
                "number, or `keys` or `where` for fewer rows; none is left out in silence"
            )
        if batch.complete:
            self._position = batch.position

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._is_closed:
            raise InvalidRequestError("these rows are closed: open others with table.live()")

    def _key_of(self, given: Mapping[str, Any] | object) -> tuple[Any, ...]:
        if not isinstance(given, Mapping):
            if len(self._key) == 1:
                return (given,)
            raise InvalidRequestError(
                f"found {given!r}; the key has the columns {listed(self._key)}: give each a value"
            )
        if set(given) != set(self._key):
            raise InvalidRequestError(f"found the columns {listed(given)}; those of the key are {listed(self._key)}")
        return tuple(given[name] for name in self._key)

"""A read of one state of a table: the newest snapshot, a named one, or the newest snapshot and the log behind it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Unpack

from lakelog.catalog.names.read_words import Keys, Position
from lakelog.common.errors import InvalidRequestError, LakelogError, UnavailableError
from lakelog.common.quoting import listed
from lakelog.filestore.metadata.tables import ConsumerManager, OutdatedSnapshotError
from lakelog.filestore.read import pinned
from lakelog.filestore.refs import SnapshotChoice
from lakelog.protocol.state import TablePosition

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.predicate import Predicate
    from lakelog.filestore.verbs import AddedRows
    from lakelog.protocol.writing import FreshReads

logger = logging.getLogger("lakelog.catalog")

_WAIT_SECONDS = 0.02


class TableScan:
    """The rows of one state of a table. Every call reads the same rows.

    Inside of `with table.at(...) as scan:` the snapshot of the state and those after it do not expire, for a day at
    most: a file in the table's folder says so. Frames of `to_polars` and `to_duckdb` are read inside of the block too.

    `position` is how far the read goes: `at(fresh=True, at_least=position)` of a later read waits for it. `store` is
    the file store with this state, for other parts of lakelog.
    """

    def __init__(
        self, store: FileStoreTable, position: TablePosition, added: AddedRows | None = None, *, is_fresh: bool = False
    ) -> None:
        """A table whose reads are pinned to the state of a position; `added` has its files behind the snapshot."""
        self._is_fresh = is_fresh
        self.store = store
        self.position = position
        self._added = added
        self._kept = ExitStack()

    def __enter__(self) -> TableScan:
        """Keep the files of the state from expiry. Writes one small file."""
        self._kept.enter_context(self._held())
        return self

    def __exit__(self, *_error: object) -> None:
        """Keep them no longer."""
        self._kept.close()

    def _held(self) -> AbstractContextManager[None]:
        """The files behind the snapshot are those of a later one, which is kept with it."""
        return ConsumerManager(self.store.file_io, self.store.paths).holding(self.position.snapshot_id)

    def to_arrow(self, *, columns: str | Sequence[str] | None = None, where: str | Predicate | None = None) -> pa.Table:
        """The rows as an Arrow table."""
        return self.store.to_arrow(columns=columns, where=where)

    def to_batches(
        self, *, columns: str | Sequence[str] | None = None, where: str | Predicate | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows in batches, for tables larger than memory.

        A fresh read keeps its files from expiry until the last batch, as a `with` block does; where the folder cannot
        be written, a warning in the log says that it does not.
        """
        planned = self.store.planned(columns=columns, where=where)
        return self._until_read(planned.batches()) if self._is_fresh else planned.batches()

    def _until_read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with ExitStack() as kept:
            try:
                kept.enter_context(self._held())
            except LakelogError as error:
                logger.warning("the files of a read of %s may expire before it ends: %s", self.store.name, error)
            yield from batches

    def to_pandas(
        self, *, columns: str | Sequence[str] | None = None, where: str | Predicate | None = None
    ) -> pd.DataFrame:
        """The rows as a pandas frame. Needs pandas."""
        from lakelog.catalog.tables.frames import pandas_frame

        return pandas_frame(self.to_arrow(columns=columns, where=where))

    def to_polars(
        self, *, columns: str | Sequence[str] | None = None, where: str | Predicate | None = None
    ) -> pl.LazyFrame:
        """The rows as a lazy polars frame."""
        from lakelog.filestore.verbs import to_polars

        return to_polars(self.store, columns=columns, where=where)

    def to_duckdb(
        self, *, columns: str | Sequence[str] | None = None, where: str | Predicate | None = None
    ) -> duckdb.DuckDBPyRelation:
        """The rows as a DuckDB relation."""
        from lakelog.filestore.verbs import to_duckdb

        return to_duckdb(self.store, columns=columns, where=where)

    def count(self, *, where: str | Predicate | None = None) -> int:
        """The exact number of rows."""
        from lakelog.filestore.verbs import count_rows

        return count_rows(self.store, where=where)

    def lookup(self, keys: Keys, *, columns: str | Sequence[str] | None = None) -> pa.Table:
        """The rows with these primary keys, in no order. Raises like `Table.lookup`."""
        from lakelog.filestore.verbs import look_up

        return look_up(self.store, keys, columns=columns, added=self._added)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows, for libraries that take Arrow streams."""
        return self.store.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return (
            f"TableScan({self.store.name!r}, snapshot {self.position.snapshot_id}, log {dict(self.position.offsets)})"
        )


def scan_of(
    store: FileStoreTable,
    fresh_reads: FreshReads[FileStoreTable] | None,
    *,
    fresh: bool,
    whole: bool,
    at_least: Position | None,
    timeout_seconds: float,
    **which: Unpack[SnapshotChoice],
) -> TableScan:
    """The scan that the arguments of `Table.at` name. `fresh_reads` is None for a table without a log."""
    wanted = None if at_least is None else TablePosition.given(store, at_least)
    named = {key: value for key, value in which.items() if value is not None}
    if fresh or wanted is not None:
        if named.get("branch") == store.branch:
            del named["branch"]
        if named:
            raise InvalidRequestError(
                f"a read that is fresh, or waits for a position, shows the newest state, and {listed(named)} names "
                "another one: leave out one of both"
            )
    if fresh and fresh_reads is not None:
        state = fresh_reads.read(whole=whole, at_least=wanted, timeout_seconds=timeout_seconds)
        return TableScan(state.table, state.position, state.added, is_fresh=True)
    deadline = time.monotonic() + timeout_seconds
    while True:
        found, snapshot = store.travelled(**which)
        try:
            position = TablePosition.of_snapshot(found, snapshot)
        except OutdatedSnapshotError:  # there is a newer one now
            continue
        if wanted is None or position.covers(wanted):
            return TableScan(pinned(found, snapshot), position)
        if time.monotonic() + _WAIT_SECONDS > deadline:
            raise UnavailableError(
                f"no snapshot of table {store.name} has reached the position {wanted} in {timeout_seconds:g} s; the "
                f"newest is at {position}"
            )
        time.sleep(_WAIT_SECONDS)

"""What a connection keeps between its statements: DuckDB, and the rows of table states that it has read."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any  # Any: duckdb is an optional extra without types here
from weakref import WeakKeyDictionary

import duckdb

from lakelog.filestore.read import KeptRows
from lakelog.sql.language.names import SqlNames
from lakelog.sql.queries.engine import open_engine

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.metadata.snapshots import Snapshot

_AT_ONCE_ROWS_MAX = 65_536  # rows that are kept when a state is first read: filters that are pushed into it win less
# Bytes of files that are kept at once as well: importing what a pushed filter needs, `pyarrow.dataset` and with it
# pandas, takes longer than reading them.
_AT_ONCE_BYTES_MAX = 4 << 20
_ROWS_MAX = 1 << 20  # of a state
_BYTES_MAX = 64 << 20  # of the files of a state
_KEPT_BYTES_MAX = 128 << 20  # of the files of all states
_STATES_MAX = 256


@dataclass(slots=True)
class _State:
    """A state that was read; without `rows` it is too large to be kept."""

    rows: KeptRows | None
    name: str
    is_made: bool = False

    @property
    def rows_are_few(self) -> bool:
        """Whether the rows are kept when the state is first read."""
        rows = self.rows
        return rows is not None and (rows.row_count <= _AT_ONCE_ROWS_MAX or rows.size_bytes <= _AT_ONCE_BYTES_MAX)

    @property
    def size_bytes(self) -> int:
        """What the state holds in memory, by its files."""
        return self.rows.size_bytes if self.rows is not None and self.is_made else 0


@dataclass
class KeptEngine:
    """A DuckDB, of which each statement has a connection of its own, and the states of tables that it holds.

    A state is a snapshot with the columns in which it is read. Large files are read by DuckDB itself; the other rows of
    a state are brought into memory when it is read again, or at once if they are few. The states that were not read
    for the longest time go first.
    """

    _engine: Any = None
    _states: OrderedDict[object, _State] = field(default_factory=OrderedDict)
    _made: int = 0

    def connection(self) -> Any:  # a DuckDBPyConnection
        """A connection for a statement: what it registers is its own."""
        if self._engine is not None:
            try:
                found = self._engine.cursor()
                found.execute("SELECT 1").fetchall()
                return found
            except duckdb.Error:  # an internal error ends a DuckDB
                self._states.clear()
        self._engine = open_engine()
        return self._engine.cursor()

    def view_of(self, table: FileStoreTable, snapshot: Snapshot) -> str | None:
        """The name of the view with the rows of a state; None if it is not kept. Raises as a read."""
        key = _key(table, snapshot)
        state = self._states.pop(key, None)
        is_first = state is None
        if state is None:
            self._made += 1
            state = _State(_kept_rows(table, snapshot), f"state {self._made}")
        self._states[key] = state
        if state.rows is None:
            self._make_room()
            return None
        if not state.is_made:
            if is_first and not state.rows_are_few:
                return None
            state.rows.create(self._engine, state.name)
            state.is_made = True
        self._make_room()
        return state.name

    def _make_room(self) -> None:
        """Drop states, the ones that were not read for the longest time first, but not the last one."""
        held = sum(state.size_bytes for state in self._states.values())
        while len(self._states) > 1 and (held > _KEPT_BYTES_MAX or len(self._states) > _STATES_MAX):
            _, oldest = self._states.popitem(last=False)
            held -= oldest.size_bytes
            if oldest.rows is not None and oldest.is_made:
                oldest.rows.drop(self._engine, oldest.name)


_ENGINES: WeakKeyDictionary[SqlNames, KeptEngine] = WeakKeyDictionary()


def kept_engine(names: SqlNames) -> KeptEngine:
    """What the connection with these names keeps."""
    return _ENGINES.setdefault(names, KeptEngine())


def _kept_rows(table: FileStoreTable, snapshot: Snapshot) -> KeptRows | None:
    """The rows of a state; None if they are too many to be kept."""
    rows = KeptRows(table, snapshot)
    is_kept = rows.can_be_kept and rows.row_count <= _ROWS_MAX and rows.size_bytes <= _BYTES_MAX
    return rows if is_kept else None


def _key(table: FileStoreTable, snapshot: Snapshot) -> object:
    """What a state is known by: lists of manifests have names that are never used again."""
    schema = table.schema
    columns = tuple((one.id, one.name, str(one.type)) for one in schema.fields)
    lists = (snapshot.id, snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.index_manifest)
    return (table.path, table.branch, schema.id, columns, tuple(sorted(schema.options.items())), lists)

"""Reads as relations of DuckDB: DuckDB itself reads large files, see `own_files`, all others come through Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any  # Any: duckdb is an optional extra without types here

import duckdb

from lakelog.common.types import DataField
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.predicate import Predicate
from lakelog.filestore.read.duckdb.holding import NoRows
from lakelog.filestore.read.planned_read import PlannedRead

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

    from lakelog.filestore.read.arrow_dataset import LakelogDataset
    from lakelog.filestore.read.duckdb.own_files import OwnFiles

_Planned = Callable[[Sequence[str], Predicate | None], PlannedRead]


def snapshot_relation(connection: Any, table: TableStore, snapshot: Snapshot) -> DuckDBPyRelation:
    """All rows of a snapshot as a relation."""

    def planned(names: Sequence[str], also: Predicate | None) -> PlannedRead:
        return PlannedRead.of(table, snapshot, table.schema.select(names), skip=also)

    return relation_of(connection, planned, fields=table.schema.fields, table=table, snapshot=snapshot)


def relation_of(
    connection: Any, planned: _Planned, *, fields: Sequence[DataField], table: TableStore, snapshot: Snapshot | None
) -> DuckDBPyRelation:
    """The rows of `planned`, which is called with columns and with a filter that skips rows, as a relation.

    With a `snapshot`, all of whose rows are read, DuckDB may read files itself.
    """
    own = None if snapshot is None else own_files_of(planned, fields, table, snapshot)
    if own is not None:
        with suppress(duckdb.PermissionException):  # the connection may not be allowed to read files
            found: DuckDBPyRelation = own.relation(connection, _others(own, planned, fields))
            return found
    from lakelog.filestore.read.arrow_dataset import LakelogDataset

    return duckdb.from_arrow(LakelogDataset(fields, planned), connection=connection)


def _others(own: OwnFiles, planned: _Planned, fields: Sequence[DataField]) -> LakelogDataset | NoRows:
    """The part that DuckDB does not read itself; it holds `own`, so that the files of `own` stay known."""
    if own.are_all:
        return NoRows(own)
    from lakelog.filestore.read.arrow_dataset import LakelogDataset

    def others(names: Sequence[str], also: Predicate | None) -> PlannedRead:
        return own.others(planned(names, also))

    return LakelogDataset(fields, others)


def own_files_of(
    planned: _Planned, fields: Sequence[DataField], table: TableStore, snapshot: Snapshot
) -> OwnFiles | None:
    """The files that DuckDB may read itself; None without the library by which it uses Python file systems."""
    if find_spec("fsspec") is None:
        return None
    from lakelog.filestore.read.duckdb.own_files import may_have_own_files, own_files

    if not may_have_own_files(table, snapshot, fields):
        return None
    return own_files(planned([field.name for field in fields], None))

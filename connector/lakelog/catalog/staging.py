"""Tables that appear with their first rows: CREATE TABLE AS SELECT.

The table is made in a hidden folder beside its place, which gets its name once the rows are committed. A process that
is killed before leaves no table; the folder has the name of one that a drop leaves, and the next drop of a table with
that name deletes it. A table with a log, whose topic has the name of its table, and one in an object store, which
cannot rename a folder, are made at their place at once.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict, Unpack

from lakelog.catalog.columns.existing import check_replaced
from lakelog.common.errors import InvalidRequestError
from lakelog.common.log_system import has_log
from lakelog.filestore import FileStoreTable
from lakelog.filestore.io import FolderStore, bounded_io
from lakelog.filestore.options import TABLE_PLACE
from lakelog.filestore.schema import SchemaManager, TablePaths
from lakelog.warehouse.identifier import Identifier
from lakelog.warehouse.system_names import check_is_free

if TYPE_CHECKING:
    from lakelog.catalog.catalog import Catalog
    from lakelog.catalog.verbs.table import Table
    from lakelog.filestore.schema import TableSchema


@dataclass(frozen=True, kw_only=True)
class StagedTable:
    """A new table that is written before it has its name: `commit` gives it the name, `discard` deletes it."""

    table: Table
    commit: Callable[[], None]
    discard: Callable[[], None]


class TableWords(TypedDict):
    """What a statement says of a new table beside its columns: arguments of `Catalog.create_table`."""

    primary_keys: Sequence[str]
    partition_keys: Sequence[str]
    options: Mapping[str, str]
    comment: str | None


class NewTable(TableWords):
    """What a statement says of a new table: arguments of `Catalog.create_table`."""

    schema: object


def stage_table(catalog: Catalog, identifier: str, **new: Unpack[NewTable]) -> StagedTable:
    """Make a table that appears at `commit`, which raises InvalidRequestError if there is one by then.

    Raises as `Catalog.create_table`.
    """
    name = Identifier.parse(identifier)
    check_is_free(name.database)
    made = _asked(catalog, new)
    store, target = catalog._file_io, name.path(catalog.warehouse)
    if has_log(made.options) or not isinstance(store, FolderStore):
        table = catalog.create_table(identifier, **new)
        return StagedTable(table=table, commit=lambda: None, discard=lambda: catalog.drop_table(identifier))
    parent = target.rpartition("/")[0]
    staged = f"{parent}/.{name.table}-{uuid.uuid4()}"
    store.make_dirs(parent)
    placed = replace(made, options={**made.options, TABLE_PLACE.key: target})
    SchemaManager(bounded_io(store, staged, ()), TablePaths(staged)).create(placed)

    def commit() -> None:
        if not store.rename_folder(staged, target):
            raise InvalidRequestError(f"table {name} was created meanwhile; drop it, or choose another name")

    files = FileStoreTable.open(staged, store, options=catalog._options)
    table = catalog._with_log(files, name, is_to_be_mended=False)
    return StagedTable(table=table, commit=commit, discard=lambda: catalog._file_io.delete_tree(staged))


def replaced_table(catalog: Catalog, identifier: str, **new: Unpack[NewTable]) -> Table:
    """The existing table that REPLACE TABLE gives other rows. It keeps the keys of which the statement says nothing.

    Raises UnsupportedError for a table with other columns, keys or options, NotFoundError if there is none.
    """
    table = catalog.load_table(identifier)
    asked = _asked(catalog, new)
    keys = asked.primary_keys or table.schema.primary_keys
    partitions = asked.partition_keys or table.schema.partition_keys
    asked = replace(asked, primary_keys=keys, partition_keys=partitions)
    check_replaced(table.schema, asked, new["options"], table_name=identifier)
    return table


def _asked(catalog: Catalog, new: NewTable) -> TableSchema:
    """The schema of a new table, checked."""
    return catalog._new_schema(
        new["schema"], new["primary_keys"], new["partition_keys"], new["options"], new["comment"]
    )

"""What UPDATE, DELETE and MERGE do to single rows, as changes of a statement.

An engine gives one row for each action: the action, the number of the row of the table for a merge, and the old and the
new values in columns that `member` names. Of an append-only table it gives the places of rows, in `PLACE_NAMES`, in the
place of their old values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.catalog.columns.text_lengths import with_stored_text
from lakelog.common.column_names import matching
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import shown
from lakelog.filestore.schema import PLACE_NAMES
from lakelog.filestore.write import (
    AffectedRows,
    StatementChanges,
    is_by_place,
    validate_rows,
)

if TYPE_CHECKING:
    from lakelog.common.types import DataField
    from lakelog.filestore import FileStoreTable

UPDATE, DELETE, INSERT = "update", "delete", "insert"
MARK = "__lakelog_"
ACTION, OLD, NEW, ROW = (f"{MARK}{name}" for name in ("action", "old", "new", "row"))
_NUMBER = f"{MARK}number"
Value = TypeVar("Value")


def member(side: str, at: int) -> str:
    """The name of the column with the values of the table's column `at`, before (OLD) or after (NEW) the action."""
    return f"{side}_{at}"


def changes_of_actions(
    table: FileStoreTable, found: pa.Table, *, what: str, has_stored_keys: bool = False
) -> StatementChanges:
    """The changes that the rows say; `what` names the statement in errors. New keys are padded, or all are as stored.

    Raises InvalidRequestError for a row that several actions change, for several new rows with one primary key, and
    for values that do not fit.
    """
    updated, deleted, inserted = (found.filter(pc.equal(found[ACTION], name)) for name in (UPDATE, DELETE, INSERT))
    if ROW in found.column_names:
        deleted = _once(updated, deleted, what)
    keys = table.schema.primary_keys
    new = _rows(table, inserted, NEW, kept=keys if has_stored_keys else ())
    _check_new(table, new, what)
    changes = StatementChanges.joined(
        [
            StatementChanges.deletion(table, _old(table, deleted)),
            StatementChanges.replacement(table, _old(table, updated), _rows(table, updated, NEW, kept=keys)),
            StatementChanges.insertion(new),
        ]
    )
    return replace(changes, counts=AffectedRows(updated.num_rows, deleted.num_rows, new.num_rows))


def _once(updated: pa.Table, deleted: pa.Table, what: str) -> pa.Table:
    """The deleted rows, each once. Raises InvalidRequestError for a row that is updated twice, or also deleted."""
    gone = deleted.group_by(ROW, use_threads=False).aggregate([]).num_rows
    every = pa.concat_tables([updated.select([ROW]), deleted.select([ROW])])
    if every.group_by(ROW, use_threads=False).aggregate([]).num_rows != updated.num_rows + gone:
        raise InvalidRequestError(
            f"{what}: several rows of the source change one row of the table; give the source one row for each, for "
            "example with row_number()"
        )
    return deleted if gone == deleted.num_rows else _first_of_each(deleted)


def _check_new(table: FileStoreTable, rows: pa.Table, what: str) -> None:
    """Raise InvalidRequestError for several new rows with one primary key: which one stays would be chance."""
    keys = list(table.schema.primary_keys)
    if keys and rows.group_by(keys).aggregate([]).num_rows != rows.num_rows:
        raise InvalidRequestError(
            f"{what}: several rows of the source insert one primary key ({', '.join(keys)}); give the source one row "
            "for each"
        )


def _old(table: FileStoreTable, found: pa.Table) -> pa.Table:
    """The rows of the table, or their places."""
    return found.select(PLACE_NAMES) if is_by_place(table) else _rows(table, found, OLD)


def _rows(table: FileStoreTable, found: pa.Table, side: str, *, kept: Sequence[str] = ()) -> pa.Table:
    """The rows of one side, in the table's columns and types. Raises InvalidRequestError for a null in a key.

    New strings are as SQL stores them, but for the columns `kept`: an updated row keeps its key.
    """
    schema = table.schema
    if not found.num_rows:
        return schema.arrow_schema.empty_table()
    columns = [found[member(side, at)] for at in range(len(schema.fields))]
    names = [field.name for field in schema.fields]
    rows = pa.table(columns, names=names)
    if side == NEW:
        rows = with_stored_text(rows, schema.fields, kept=kept)
    return validate_rows(schema, rows, table_name=table.name)


def _first_of_each(rows: pa.Table) -> pa.Table:
    numbered = rows.append_column(_NUMBER, pa.array(range(rows.num_rows), pa.int64()))
    first = numbered.group_by(ROW, use_threads=False).aggregate([(_NUMBER, "min")])
    return rows.take(first[f"{_NUMBER}_min"])


def named_values(
    fields: Sequence[DataField], values: Mapping[str, Value], *, keys: Sequence[str], what: str
) -> dict[str, Value]:
    """The values under the names of the table's columns. Raises InvalidRequestError for others and for `keys`."""
    names = [field.name for field in fields]
    found: dict[str, Value] = {}
    for name, value in values.items():
        known = matching(name, names)
        if len(known) != 1:
            said = f"column {shown(name)} is ambiguous" if known else f"the table has no column {shown(name)}"
            raise InvalidRequestError(f"{what}: {said}; it has {', '.join(known or names)}")
        own = known[0]
        if own in keys:
            raise InvalidRequestError(
                f"{what} sets {own!r}, a column of the primary key, by which a row is found: delete the row, and "
                "insert it with its new key"
            )
        if own in found:
            raise InvalidRequestError(f"{what} gives column {own!r} two values")
        found[own] = value
    return found

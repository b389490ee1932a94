"""Adding columns that records have and a table lacks; columns that the table cannot take make their records bad."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pyarrow as pa

from lakelog.catalog import Table
from lakelog.common.arrow import to_arrow_field
from lakelog.common.errors import ConflictError, InvalidRequestError, UnsupportedError
from lakelog.common.quoting import listed
from lakelog.common.types import DataField, DataType
from lakelog.logstore.codec.foreign_members import MemberPath, shown_path
from lakelog.spark.ingesting.counts import Counts

logger = logging.getLogger("lakelog.spark")


def grown(
    table: Table, counts: Counts, refused_before: Mapping[MemberPath, str]
) -> tuple[Table, dict[MemberPath, str]]:
    """The table with the missing columns and members added, nullable, and all that it has refused, with the reasons.

    They are added in one schema change, or in several if some are refused for a reserved name or a limit. Records are
    decoded once more after this: what was refused before must be refused then, or its values would be lost.
    """
    new: dict[MemberPath, DataType] = {(name,): kind for name, kind in counts.new_columns.items()}
    new |= counts.new_members
    refused: dict[MemberPath, str] = {**refused_before}
    left = [new]
    while left:
        part = left.pop()
        try:
            table = _with_new(table, part)
        except (InvalidRequestError, UnsupportedError) as error:
            paths = list(part)
            if len(paths) == 1:
                refused[paths[0]] = str(error)
                logger.warning("table %s cannot get the column %s: %s", table.name, shown_path(paths[0]), error)
            else:
                middle = len(paths) // 2
                left += [{path: part[path] for path in half} for half in (paths[middle:], paths[:middle])]
        else:
            logger.info("table %s gets the column(s) %s", table.name, listed(map(shown_path, part)))
    return table, refused


def check_grown(table: Table, counts: Counts) -> None:
    """Raise ConflictError if records still have columns that the table lacks: their values would be lost."""
    if counts.has_new:
        names = listed([*counts.new_columns, *map(shown_path, counts.new_members)])
        raise ConflictError(
            f"table {table.name} lacks the column(s) {names}, which were added to it for this batch: another process "
            "has changed its columns meanwhile. Nothing of the batch is written; start the query again"
        )


def _with_new(table: Table, new: Mapping[MemberPath, DataType]) -> Table:
    fields = [DataField(id=0, name=path[0], type=kind) for path, kind in new.items() if len(path) == 1]
    found = pa.schema([*table.schema.arrow_schema, *map(to_arrow_field, fields)])
    return table._with_new_columns(found, members={path: kind for path, kind in new.items() if len(path) > 1})

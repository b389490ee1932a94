"""Checks of a new table as a whole, beyond those of each column and option. Pure."""

from __future__ import annotations

from lakelog.common.errors import UnsupportedError
from lakelog.filestore.data.value_stats import stats_modes
from lakelog.filestore.merge.engines import row_merge
from lakelog.filestore.options.merging import DELETION_VECTORS_MERGE_ON_READ
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.schema.table_kinds import check_need_no_key


def check_new_table(schema: TableSchema) -> None:
    """Raise InvalidRequestError or UnsupportedError for a table that could not be written and read afterwards.

    Must be called before any part of a table is created.
    """
    check_need_no_key(schema.options, has_key=bool(schema.primary_keys))
    row_merge(schema)
    stats_modes(schema)
    if schema.primary_keys and DELETION_VECTORS_MERGE_ON_READ.of(schema.options):
        raise UnsupportedError(
            f"{DELETION_VECTORS_MERGE_ON_READ.key}=true is not read yet, so a table with it could not be read; leave "
            "it out: rows are shown only after a compaction"
        )

"""The least and the greatest value of a column by metadata, where these are exact: no file is opened.

The files must have the table's rows and no others. Statistics of strings are cut, those of floating numbers leave out
NaN, and those of timestamps in ORC files may be wrong: columns of these types are not answered.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakelog.common.types import TypeRoot
from lakelog.filestore.encoding.binary_row import to_table
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.predicate import bounds_of_row
from lakelog.filestore.read.file_pruning import FileBounds, StatsColumns
from lakelog.filestore.read.scan import DataSplit

_EXACT = frozenset(
    {
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.DECIMAL,
        TypeRoot.DATE,
    }
)


def known_range(table: TableStore, splits: Sequence[DataSplit], name: str) -> pa.ChunkedArray | None:
    """Two values, the least and the greatest one, both null if all are null; None if metadata do not say it."""
    field = table.schema.field(name)
    if field.type.root not in _EXACT or not all(split.is_plain and split.branch is None for split in splits):
        return None
    columns, found = StatsColumns(table), []
    for split in splits:
        partition = bounds_of_row(table.schema.partition_fields, split.bucket_id.partition)
        for file in split.files:
            bounds = FileBounds(columns, partition, file, has_values=True).get(name)
            if bounds is None:
                return None
            if bounds.may_be_present:
                if bounds.least is None or bounds.most is None:
                    return None
                found.append((bounds.least, bounds.most))
    least = min((low for low, _ in found), default=None)
    most = max((high for _, high in found), default=None)
    return to_table([field], [(least,), (most,)]).column(0)

"""What changed between two states of a table: each change, the net difference, or the rows that are new."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed, shown
from lakelog.filestore.read import ChangeSource
from lakelog.filestore.verbs import changes, rows_between

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.refs import RangeName


class Compare(StrEnum):
    """What is compared."""

    AUTO = "auto"  # each change of the commits; between two tags, the states
    STATES = "states"  # the net difference: one change per key
    ROWS = "rows"  # the rows of the later state that are new or changed


def changed_batches(
    files: FileStoreTable,
    compare: str,
    *,
    after: RangeName | None,
    up_to: RangeName | None,
    columns: str | Sequence[str] | None,
    branch: str | None,
) -> Iterator[pa.RecordBatch]:
    """What changed between two states. See `Table.changes`. Raises InvalidRequestError, NotFoundError."""
    try:
        how = Compare(compare)
    except ValueError as error:
        known = listed(one.value for one in Compare)
        raise InvalidRequestError(f"compare={shown(compare)} is nothing to compare; expected one of {known}") from error
    if how is Compare.ROWS:
        return rows_between(files, after, up_to, columns=columns, branch=branch)
    source = ChangeSource.DIFFERENCE if how is Compare.STATES else ChangeSource.AUTO
    return changes(files, after=after, up_to=up_to, source=source, columns=columns, branch=branch)

"""Which changes of a table with a log are logged, and what a reader does if some are not. Source: FLIP-188.

A change that is not tracked is only in the files. Instead of its records, the log has a header record with the mark
`untracked`, and the snapshot that takes it in has the property `lakelog.untracked`. Changes of another engine have the
mark `break`. Source: docs/rfcs/0028-life-of-a-log.md, "Marks".
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.errors import InvalidRequestError, NotFoundError, UnsupportedError
from lakelog.common.quoting import listed, shown
from lakelog.filestore.predicate import RowTest, required_predicate, resolved_columns
from lakelog.filestore.schema import TableSchema
from lakelog.logstore.options import CHANGE_TRACKING, ON_UNTRACKED, UNTRACKED_PARTITIONS, OnUntracked, is_eventual
from lakelog.protocol.state.header import LogMark
from lakelog.protocol.state.header_files import MarkedHeader, marked_header

logger = logging.getLogger("lakelog.log")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTracking:
    """Which changes of a write are logged: none unless `is_on`, and none in partitions that meet `off_where`."""

    is_on: bool = True
    off_where: str = ""

    @classmethod
    def of(cls, options: Mapping[str, str], *, given: bool | None = None) -> ChangeTracking:
        """The change tracking of a table with these options; `given` is what a write asks for."""
        is_on = CHANGE_TRACKING.of(options) if given is None else given
        return cls(is_on=is_on, off_where=UNTRACKED_PARTITIONS.of(options))

    def logged(self, rows: pa.Table, schema: TableSchema) -> pa.Array | None:
        """For each row, whether it is logged; None if all are."""
        if not rows.num_rows or (self.is_on and not self.off_where):
            return None
        if not self.is_on:
            return pa.repeat(pa.scalar(False), rows.num_rows)
        is_off = RowTest.stored(self.off_where, schema.fields).passing(rows)
        if not pc.any(is_off).as_py():
            return None
        return pc.invert(is_off)


EVERYTHING_TRACKED = ChangeTracking()


def check_change_tracking(schema: TableSchema, *, table_name: str) -> None:
    """Raise OptionError or InvalidRequestError for options of change tracking that do not fit a table. Pure."""
    CHANGE_TRACKING.of(schema.options)
    ON_UNTRACKED.of(schema.options)
    condition = UNTRACKED_PARTITIONS.of(schema.options)
    if is_eventual(schema.options) and (condition or not CHANGE_TRACKING.of(schema.options)):
        raise UnsupportedError(
            f"table {table_name} has log.consistency=eventual, whose changes are all in the log: leave out"
            f" {CHANGE_TRACKING.key} and {UNTRACKED_PARTITIONS.key}, or use 'transactional'"
        )
    if not condition:
        return
    predicate = required_predicate(condition, fields=schema.fields)
    others = [one.name for one in resolved_columns(predicate, schema.fields) if one.name not in schema.partition_keys]
    if others:
        keys = listed(schema.partition_keys) or "none"
        raise InvalidRequestError(
            f"option {UNTRACKED_PARTITIONS.key!r} of table {table_name} names {listed(others)}, which are not partition"
            f" columns; the partition columns are: {keys}"
        )


class UntrackedChangesError(NotFoundError):
    """The files of a table have changes that its log lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkCheck:
    """What a reader does at a header record that says that the log lacks changes."""

    table_name: str
    on_untracked: OnUntracked

    def __call__(self, header: bytes, where: str) -> None:
        """Raise UntrackedChangesError or continue, as the table or the read says. Raises CorruptDataError."""
        found = marked_header(header, where=where)
        if found is None or not found.mark.hides_changes:
            return
        what = f"{where}: {_what(found)}, so the log of table {self.table_name} lacks changes that its files have"
        if self.on_untracked is OnUntracked.SKIP:
            logger.warning("%s; they are skipped, as log.on-untracked=skip says", what)
            return
        raise UntrackedChangesError(
            f"{what}. Start the query with a new checkpoint location, which reads the newest snapshot first, with these"
            " changes; or read on without them: option log.on-untracked=skip"
        )


def _what(found: MarkedHeader) -> str:
    if found.mark is LogMark.BREAK:
        return f"another engine wrote snapshot {shown(found.lineage.get('snapshot'))}"
    batch = "a batch" if found.user is None else f"batch {found.identifier} of {shown(found.user)}"
    return f"{batch} was written with change-tracking=false"

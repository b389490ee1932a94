"""The rules for records that the arguments of an ingest give."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakelog.catalog import Table
from lakelog.common.errors import InvalidRequestError
from lakelog.common.options import parse_size_bytes
from lakelog.common.types import RowKind
from lakelog.filestore import FileStoreTable
from lakelog.filestore.merge import row_merge
from lakelog.filestore.write import check_kinds_taken
from lakelog.logstore.codec.foreign_columns import BinaryForm
from lakelog.logstore.codec.foreign_records import RECORD_BYTES_MAX
from lakelog.logstore.codec.foreign_rules import ForeignRules
from lakelog.logstore.codec.foreign_unavailable import UNAVAILABLE, marks_of_unavailable

PARTITION_CHANGES = ("before", "never")


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesOf:
    """The rules of an ingest for a table whose columns may grow."""

    takes_new_columns: bool = False
    drops_members: bool = False
    ignored: tuple[str, ...] = ()
    bytes_max: int = RECORD_BYTES_MAX
    unavailable: str = UNAVAILABLE
    binaries: BinaryForm = BinaryForm.BYTES
    keys_stay: bool = False

    def __post_init__(self) -> None:
        if self.takes_new_columns and self.drops_members:
            raise InvalidRequestError(
                "merge_schema adds unknown members of nested columns, drop_unknown_members leaves them out: give one"
            )
        try:
            is_known = bool(self.unavailable) and bool(marks_of_unavailable(self.unavailable))
        except ValueError:
            is_known = False
        if not is_known:
            raise InvalidRequestError(
                f"unavailable_value is {self.unavailable!r}; expected a text, or hex: and bytes in hexadecimal"
            )

    def __call__(self, table: Table) -> ForeignRules:
        schema = table.schema
        return ForeignRules(
            fields=schema.fields,
            key_fields=tuple(schema.primary_keys),
            no_removals=_why_no_removals(table.store),
            takes_new_columns=self.takes_new_columns,
            drops_members=self.drops_members,
            ignored=frozenset(self.ignored),
            bytes_max=self.bytes_max,
            unavailable=self.unavailable,
            binaries=self.binaries,
            keys_stay=self.keys_stay,
        )


def _why_no_removals(table: FileStoreTable) -> str | None:
    """Why a delete cannot be written, or would make the rows that it meets unreadable; None if the table takes it."""
    deletes = pa.array([RowKind.DELETE], pa.int8())
    merge = row_merge(table.schema) if table.schema.primary_keys else None
    try:
        check_kinds_taken(table, deletes)
        if merge is not None:
            merge.check_kinds(deletes)
    except InvalidRequestError as error:
        return str(error)
    return None


def parse_binary_form(given: str) -> BinaryForm:
    """How the connector writes binary values. Raises InvalidRequestError."""
    try:
        return BinaryForm(given)
    except ValueError:
        known = ", ".join(form.value for form in BinaryForm)
        raise InvalidRequestError(f"binary_handling_mode is {given!r}; expected one of {known}") from None


def parse_partition_changes(given: str) -> bool:
    """Whether the columns of the primary key that record keys lack never change. Raises InvalidRequestError."""
    if given not in PARTITION_CHANGES:
        known = ", ".join(PARTITION_CHANGES)
        raise InvalidRequestError(f"partition_changes is {given!r}; expected one of {known}")
    return given == "never"


def parse_size(given: int | str, *, what: str) -> int:
    """A number of bytes, 1 or more. Raises InvalidRequestError, naming the argument."""
    try:
        size = parse_size_bytes(given) if isinstance(given, str) else given
    except ValueError as error:
        raise InvalidRequestError(f"{what} is {given!r}; expected a size such as 16 mb") from error
    if size < 1:
        raise InvalidRequestError(f"{what} is {given!r}; expected 1 or more")
    return size

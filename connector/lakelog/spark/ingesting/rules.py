"""The rules for records that the arguments of an ingest give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

import pyarrow as pa

from lakelog.catalog import Table
from lakelog.common.errors import InvalidRequestError
from lakelog.common.options import parse_size_bytes
from lakelog.common.types import RowKind
from lakelog.filestore import FileStoreTable
from lakelog.filestore.merge import row_merge
from lakelog.filestore.write import check_kinds_taken
from lakelog.logstore.codec.foreign_forms import (
    TIMES,
    BinaryForm,
    DecimalForm,
    ForeignForms,
    TimeForm,
    types_by_path,
)
from lakelog.logstore.codec.foreign_records import RECORD_BYTES_MAX
from lakelog.logstore.codec.foreign_rules import ForeignRules
from lakelog.logstore.codec.foreign_unavailable import UNAVAILABLE, marks_of_unavailable
from lakelog.logstore.codec.json_text import UNITS_PER_SECOND

Form = TypeVar("Form", bound=Enum)

PARTITION_CHANGES = ("before", "never")


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesOf:
    """The rules of an ingest for a table whose columns may grow."""

    takes_new_columns: bool = False
    drops_members: bool = False
    ignored: tuple[str, ...] = ()
    bytes_max: int = RECORD_BYTES_MAX
    unavailable: str = UNAVAILABLE
    forms: ForeignForms = field(default_factory=ForeignForms)
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
        """Raises InvalidRequestError for a unit of a column that has no times."""
        schema = table.schema
        for path in self.forms.units:
            self._check_has_times(path, table)
        return ForeignRules(
            fields=schema.fields,
            key_fields=tuple(schema.primary_keys),
            no_removals=_why_no_removals(table.store),
            takes_new_columns=self.takes_new_columns,
            drops_members=self.drops_members,
            ignored=frozenset(self.ignored),
            bytes_max=self.bytes_max,
            unavailable=self.unavailable,
            forms=self.forms,
            keys_stay=self.keys_stay,
        )

    def _check_has_times(self, path: str, table: Table) -> None:
        kind = types_by_path(table.schema.fields).get(path)
        if kind is None and self.takes_new_columns:
            return  # it may be added
        if kind is None or kind.root not in TIMES:
            found = "no such column" if kind is None else f"the type {kind} there"
            raise InvalidRequestError(
                f"time_units names {path!r}, and table {table.name} has {found}; expected a column of the type TIME or"
                " TIMESTAMP, or the path of such a member"
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


def parse_forms(*, binaries: str, decimals: str, times: str, units: Mapping[str, str] | None) -> ForeignForms:
    """How the connector writes values, by its options. Raises InvalidRequestError."""
    for path, unit in (units or {}).items():
        if unit not in UNITS_PER_SECOND:
            known = ", ".join(UNITS_PER_SECOND)
            raise InvalidRequestError(f"time_units[{path!r}] is {unit!r}; expected one of {known}")
    return ForeignForms(
        binaries=_parsed(BinaryForm, binaries, what="binary_handling_mode"),
        decimals=_parsed(DecimalForm, decimals, what="decimal_handling_mode"),
        times=_parsed(TimeForm, times, what="time_precision_mode"),
        units=dict(units or {}),
    )


def _parsed(kind: type[Form], given: str, *, what: str) -> Form:
    try:
        return kind(given)
    except ValueError:
        known = ", ".join(str(form.value) for form in kind)
        raise InvalidRequestError(f"{what} is {given!r}; expected one of {known}") from None


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

"""The rules for records that the arguments of an ingest give."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.catalog import Table
from lakelog.common.errors import InvalidRequestError
from lakelog.common.options import parse_size_bytes
from lakelog.logstore.codec.foreign_columns import BinaryForm
from lakelog.logstore.codec.foreign_records import RECORD_BYTES_MAX, UNAVAILABLE
from lakelog.logstore.codec.foreign_rules import ForeignRules


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesOf:
    """The rules of an ingest for a table whose columns may grow."""

    takes_new_columns: bool = False
    drops_members: bool = False
    ignored: tuple[str, ...] = ()
    bytes_max: int = RECORD_BYTES_MAX
    unavailable: str = UNAVAILABLE
    binaries: BinaryForm = BinaryForm.BYTES

    def __post_init__(self) -> None:
        if self.takes_new_columns and self.drops_members:
            raise InvalidRequestError(
                "merge_schema adds unknown members of nested columns, drop_unknown_members leaves them out: give one"
            )

    def __call__(self, table: Table) -> ForeignRules:
        schema = table.schema
        takes_removals = bool(schema.primary_keys) or schema.is_counted
        return ForeignRules(
            fields=schema.fields,
            key_fields=() if schema.is_counted else tuple(schema.primary_keys),
            takes_removals=takes_removals,
            takes_new_columns=self.takes_new_columns,
            drops_members=self.drops_members,
            ignored=frozenset(self.ignored),
            bytes_max=self.bytes_max,
            unavailable=self.unavailable,
            binaries=self.binaries,
        )


def parse_binary_form(given: str) -> BinaryForm:
    """How the connector writes binary values. Raises InvalidRequestError."""
    try:
        return BinaryForm(given)
    except ValueError:
        known = ", ".join(form.value for form in BinaryForm)
        raise InvalidRequestError(f"binary_handling_mode is {given!r}; expected one of {known}") from None


def parse_size(given: int | str, *, what: str) -> int:
    """A number of bytes, 1 or more. Raises InvalidRequestError, naming the argument."""
    try:
        size = parse_size_bytes(given) if isinstance(given, str) else given
    except ValueError as error:
        raise InvalidRequestError(f"{what} is {given!r}; expected a size such as 16 mb") from error
    if size < 1:
        raise InvalidRequestError(f"{what} is {given!r}; expected 1 or more")
    return size

"""How a connector writes decimals, times and binaries, and what a number or a string in a column means by that.

A schema beside a record decides; without one the connector's options do, as the caller gives them. Nothing is guessed
from a value. Source: Debezium's documentation, "decimal.handling.mode", "time.precision.mode" and
"binary.handling.mode" of each connector.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum

import numpy as np

from lakelog.common.arrow import time_unit
from lakelog.common.column_names import matching
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.logstore.codec.foreign_members import MemberPath, shown_path
from lakelog.logstore.codec.json_columns import TIMESTAMP_ROOTS
from lakelog.logstore.codec.json_text import UNITS_PER_SECOND
from lakelog.logstore.codec.json_value import (
    DAYS,
    JsonValueError,
    Numbers,
    ValueForms,
    bytes_of_base64,
    decimal_of_base64,
    decimal_of_text,
)

_NUMBER_MAX = 1 << 63
_MONTH_SECONDS = 31 * 86_400
_YEAR_1, _YEAR_10000 = -62_135_596_800, 253_402_300_800  # in seconds since 1970
TIMES = TIMESTAMP_ROOTS | {TypeRoot.TIME}


class BinaryForm(Enum):
    """How the connector writes binaries, by its option `binary.handling.mode`."""

    BYTES = "bytes"
    BASE64 = "base64"
    HEX = "hex"


class DecimalForm(Enum):
    """How the connector writes decimals, by its option `decimal.handling.mode`."""

    PRECISE = "precise"
    DOUBLE = "double"
    STRING = "string"


class TimeForm(Enum):
    """How the connector writes times, by its option `time.precision.mode`."""

    ADAPTIVE = "adaptive"
    ADAPTIVE_TIME_MICROSECONDS = "adaptive_time_microseconds"
    CONNECT = "connect"
    ISOSTRING = "isostring"
    MICROSECONDS = "microseconds"
    NANOSECONDS = "nanoseconds"


_UNITS = {TimeForm.CONNECT: "ms", TimeForm.MICROSECONDS: "us", TimeForm.NANOSECONDS: "ns"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignForms:
    """The connector's options. `units` are those of the numbers of single columns or members, by their shown path."""

    binaries: BinaryForm = BinaryForm.BYTES
    decimals: DecimalForm = DecimalForm.PRECISE
    times: TimeForm = TimeForm.ADAPTIVE
    units: Mapping[str, str] = field(default_factory=dict)

    def unit(self, path: MemberPath, kind: DataType) -> str | None:
        """The unit of a number in a column; None if the connector writes strings."""
        given = self.units.get(shown_path(path))
        if given is not None:
            return given
        if self.times is TimeForm.ISOSTRING:
            return None
        if kind.root is TypeRoot.DATE:
            return DAYS
        if kind.root is TypeRoot.TIME and self.times is TimeForm.ADAPTIVE_TIME_MICROSECONDS:
            return "us"
        return _UNITS.get(self.times) or time_unit(max(kind.precision or 0, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class OddTime:
    """A number in a column that is an odd time in the unit that was assumed."""

    number: int
    unit: str


@dataclass(slots=True)
class AssumedTimes:
    """Columns, by path, whose times came as numbers of a unit that no schema and no caller has named.

    `odd` has those with a time near 1970 or beyond the year 9999; `plain` those with another one, or with a string,
    which needs no unit. 1970 itself is the same in each unit.
    """

    odd: dict[MemberPath, OddTime] = field(default_factory=dict)
    plain: set[MemberPath] = field(default_factory=set)

    def see(self, path: MemberPath, numbers: Sequence[int] | Numbers, unit: str) -> None:
        """Note numbers of a column; those beyond 64 bits are no times of any unit."""
        values = np.asarray(numbers)
        values = values[(values != 0) & (np.abs(values) < _NUMBER_MAX)]
        if not len(values):
            return
        seconds = values // UNITS_PER_SECOND[unit]
        is_odd = (np.abs(seconds) < _MONTH_SECONDS) | (seconds < _YEAR_1) | (seconds >= _YEAR_10000)
        if not is_odd.all():
            self.plain.add(path)
        elif path not in self.odd:
            self.odd[path] = OddTime(number=int(values[0]), unit=unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnForms(ValueForms):
    """The forms of one column or member; `declared` is its type by the schema beside the record, if there is one."""

    forms: ForeignForms
    path: MemberPath
    declared: DataType | None = None
    seen: AssumedTimes = field(default_factory=AssumedTimes)

    def decimal(self, text: str, scale: int) -> Decimal:
        """A string in a DECIMAL column. Raises JsonValueError."""
        if self.declared is not None and self.declared.root is TypeRoot.DECIMAL:
            return decimal_of_base64(text, self.declared.scale or 0)
        if self.declared is not None:
            return decimal_of_text(text)
        match self.forms.decimals:
            case DecimalForm.PRECISE:
                return decimal_of_base64(text, scale)
            case DecimalForm.STRING:
                return decimal_of_text(text)
            case DecimalForm.DOUBLE:
                raise JsonValueError(f"{text!r} is a string, and decimal_handling_mode='double' writes numbers")

    def unit(self, kind: DataType) -> str | None:
        """The unit of a number in a column of dates or times; None if there are no numbers."""
        if self._is_declared:
            assert self.declared is not None
            return DAYS if kind.root is TypeRoot.DATE else time_unit(max(self.declared.precision or 0, 1))
        return self.forms.unit(self.path, kind)

    def see(self, kind: DataType, numbers: Sequence[int] | Numbers, unit: str) -> None:
        """Note numbers that were read as timestamps of a unit that was assumed."""
        is_given = self._is_declared or shown_path(self.path) in self.forms.units
        if kind.root in TIMESTAMP_ROOTS and not is_given:
            self.seen.see(self.path, numbers, unit)

    def see_text(self, kind: DataType) -> None:
        """Note that a string was read as a timestamp: a few odd numbers beside strings are no wrong unit."""
        if kind.root in TIMESTAMP_ROOTS:
            self.seen.plain.add(self.path)

    def binary(self, text: str) -> bytes:
        """A string in a column of binaries. Raises ValueError."""
        return bytes.fromhex(text) if self.forms.binaries is BinaryForm.HEX else bytes_of_base64(text)

    @property
    def _is_declared(self) -> bool:
        return self.declared is not None and (self.declared.root in TIMES or self.declared.root is TypeRoot.DATE)

    def inside(self, name: str) -> ColumnForms:
        """The forms of a member: `element`, `value`, or a field."""
        declared = None if self.declared is None else _member(self.declared, name)
        return replace(self, path=(*self.path, name), declared=declared)


def types_by_path(fields: Iterable[DataField], path: MemberPath = ()) -> dict[str, DataType]:
    """The shown path of each column and of each member of nested columns -> its type."""
    found: dict[str, DataType] = {}
    for one in fields:
        here = (*path, one.name)
        inside = {"element": one.type.element, "value": one.type.value}
        parts = [DataField(id=0, name=name, type=kind) for name, kind in inside.items() if kind is not None]
        found |= {shown_path(here): one.type} | types_by_path([*one.type.fields, *parts], here)
    return found


def _member(kind: DataType, name: str) -> DataType | None:
    if kind.root is not TypeRoot.ROW:
        return {"element": kind.element, "value": kind.value}.get(name)
    known = {one.name: one.type for one in kind.fields}
    found = matching(name, known)
    return known[found[0]] if len(found) == 1 else None

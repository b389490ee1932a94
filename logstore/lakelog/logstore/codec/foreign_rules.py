"""How foreign records become rows: the rules of a table, and the table's column for each column of the records."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any  # Any: numpy arrays of any element type, and parsed JSON

import numpy as np
import pyarrow as pa

from lakelog.common.arrow import to_arrow_type
from lakelog.common.column_names import matching
from lakelog.common.quoting import cut
from lakelog.common.types import FIELDS_MAX, DataField, DataType, TypeRoot
from lakelog.logstore.codec.connect_types import STRING, ConnectColumn
from lakelog.logstore.codec.foreign_columns import BoundColumn, bind
from lakelog.logstore.codec.foreign_forms import AssumedTimes, ForeignForms
from lakelog.logstore.codec.foreign_members import MemberPath, other_measure, shown_path
from lakelog.logstore.codec.foreign_records import RECORD_BYTES_MAX, BadRecordError
from lakelog.logstore.codec.foreign_unavailable import UNAVAILABLE
from lakelog.logstore.codec.json_value import Json

_INT64 = range(-(1 << 63), 1 << 63)
_NAMED_MAX = 5

Columns = tuple[ConnectColumn, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRules:
    """How foreign records become rows. `fields` are the table's columns, `key_fields` its primary key.

    `no_removals` says why the table takes inserts only; None if it takes all changes. `keys_stay` says that updates
    change no column of the primary key that the record's key lacks. Columns that the table lacks are left out if
    `ignored` names them, and make a record bad otherwise; with `takes_new_columns` they are reported instead, except
    those that the table has `refused`, with the reason. The same holds for members of nested values, which `ignored`
    names by their path; `drops_members` leaves all of them out, and counts them.
    """

    fields: tuple[DataField, ...]
    key_fields: tuple[str, ...]
    no_removals: str | None = None
    keys_stay: bool = False
    takes_new_columns: bool = False
    drops_members: bool = False
    ignored: frozenset[str] = frozenset()
    refused: Mapping[MemberPath, str] = field(default_factory=dict)
    bytes_max: int = RECORD_BYTES_MAX
    unavailable: str = UNAVAILABLE
    forms: ForeignForms = field(default_factory=ForeignForms)


@dataclass(slots=True, kw_only=True)
class Piece:
    """Some rows: numbers of their records, kinds, columns in the table's types, how many members were left out."""

    records: np.ndarray[Any, np.dtype[np.int64]]
    kinds: np.ndarray[Any, np.dtype[np.int8]]
    arrays: dict[str, pa.Array]
    left_out: np.ndarray[Any, np.dtype[np.int64]]
    unavailable: dict[int, tuple[str, ...]] = field(default_factory=dict)


def bound_columns(
    names: Collection[str], connect: Columns, samples: Mapping[str, Json], rules: ForeignRules, *, seen: AssumedTimes
) -> tuple[list[BoundColumn], list[str]]:
    """The columns that are read, and the names that the table has no column for. Raises BadRecordError."""
    if len(names) > FIELDS_MAX:
        raise BadRecordError(f"oversized: an image of {len(names)} columns; at most {FIELDS_MAX} are read")
    by_name = {column.name: column for column in connect or ()}
    fields = {one.name: one for one in rules.fields}
    bound: dict[str, BoundColumn] = {}
    unknown = []
    for name in dict.fromkeys(names):
        found = matching(name, fields)
        if name in rules.ignored:
            continue
        if len(found) != 1:
            unknown.append(name)
            continue
        if found[0] in bound:
            raise BadRecordError(f"the columns {bound[found[0]].name!r} and {name!r} are both for column {found[0]!r}")
        column = fields[found[0]]
        if name in by_name and column.type.is_nested and by_name[name].type.is_nested:
            reason = other_measure(by_name[name].type, column.type, (column.name,))
            if reason is not None:
                raise BadRecordError(f"wrong type: column {name!r}: {reason}")
        bound[found[0]] = bind(name, column, by_name.get(name), samples.get(name), options=rules.forms, seen=seen)
    return list(bound.values()), unknown


def type_of_value(value: Json) -> DataType | None:
    """The type of a new column from one of its values, if no schema says it; None for null."""
    if value is None:
        return None
    if isinstance(value, bool):
        return DataType(root=TypeRoot.BOOLEAN)
    if isinstance(value, int):
        return DataType(root=TypeRoot.BIGINT) if value in _INT64 else STRING
    return STRING if isinstance(value, str | Mapping | list) else DataType(root=TypeRoot.DOUBLE)


def joined_type(one: DataType | None, other: DataType) -> DataType:
    """The type that holds the values of both."""
    if one is None or one == other:
        return other
    numbers = {TypeRoot.BIGINT, TypeRoot.DOUBLE}
    return DataType(root=TypeRoot.DOUBLE) if {one.root, other.root} == numbers else STRING


@dataclass(slots=True)
class NewColumns:
    """Columns, and members of nested columns, that the table lacks."""

    columns: dict[str, DataType] = field(default_factory=dict)
    members: dict[MemberPath, DataType] = field(default_factory=dict)

    def add(self, unknown: Mapping[str, DataType], rules: ForeignRules) -> None:
        """Report columns. Raises BadRecordError if they are not asked for, or were refused."""
        if not unknown:
            return
        if not rules.takes_new_columns:
            names = ", ".join(cut(repr(name)) for name in list(unknown)[:_NAMED_MAX])
            raise BadRecordError(
                f"unknown column {names}: the table has no such column; add it (merge_schema), or name it in"
                " ignore_columns"
            )
        for name in unknown:
            _check_not_refused((name,), rules)
        for name, kind in unknown.items():
            self.columns[name] = joined_type(self.columns.get(name), kind)

    def add_member(self, path: MemberPath, kind: DataType, rules: ForeignRules) -> None:
        """Report a member of a nested column. Raises BadRecordError if it is not asked for, or was refused."""
        if not rules.takes_new_columns:
            raise BadRecordError(
                f"unknown member {cut(shown_path(path))!r}: the table's column has no such member; add it"
                " (merge_schema), name it in ignore_columns, or leave out all such members (drop_unknown_members)"
            )
        _check_not_refused(path, rules)
        self.members[path] = joined_type(self.members.get(path), kind)


def _check_not_refused(path: MemberPath, rules: ForeignRules) -> None:
    if path in rules.refused:
        raise BadRecordError(
            f"unknown column {cut(shown_path(path))!r}: it cannot be added to the table: {rules.refused[path]}; name it"
            " in ignore_columns"
        )


def all_columns(arrays: Mapping[str, pa.Array], count: int, rules: ForeignRules) -> dict[str, pa.Array]:
    """Every column of the table; null where the records have none."""
    return {
        column.name: arrays[column.name] if column.name in arrays else pa.nulls(count, to_arrow_type(column.type))
        for column in rules.fields
    }

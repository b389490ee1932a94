"""Reads foreign records one by one: this way says why a record is bad."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from lakelog.common.arrow import to_arrow_type
from lakelog.common.column_names import matching
from lakelog.common.quoting import cut
from lakelog.common.types import DataType, RowKind
from lakelog.logstore.codec.foreign_columns import BoundColumn
from lakelog.logstore.codec.foreign_forms import AssumedTimes
from lakelog.logstore.codec.foreign_members import MemberPath, declared_type, known_members, shown_path
from lakelog.logstore.codec.foreign_records import (
    BadRecordError,
    Envelope,
    Marker,
    plain_inside,
    read_envelope,
)
from lakelog.logstore.codec.foreign_rules import (
    Columns,
    ForeignRules,
    NewColumns,
    Piece,
    all_columns,
    bound_columns,
    type_of_value,
)
from lakelog.logstore.codec.foreign_unavailable import is_unavailable, marks_of_unavailable
from lakelog.logstore.codec.json_value import Json, JsonValueError, value_of

_ERROR_MAX = 200


class SingleRecords:
    """Gathers the rows of single records; a record that fails leaves no rows."""

    def __init__(self, rules: ForeignRules, new_columns: NewColumns, seen: AssumedTimes) -> None:
        self._rules = rules
        self._new_columns = new_columns
        self._seen = seen
        self._marks = marks_of_unavailable(rules.unavailable)
        self._rows: list[dict[str, pa.Array]] = []
        self._kinds: list[RowKind] = []
        self._records: list[int] = []
        self._left_out: list[int] = []
        self._unavailable: dict[int, tuple[str, ...]] = {}

    def add(self, number: int, value: bytes, key: bytes | None, connect: Columns) -> Marker | None:
        """Add the rows of a record. If it raises BadRecordError, nothing of the record is added."""
        rules = self._rules
        key_of = self._key_of if rules.key_fields else None
        envelope = read_envelope(
            value, key, key_of=key_of, columns=connect, bytes_max=rules.bytes_max, keys_stay=rules.keys_stay
        )
        if envelope.marker is Marker.TRUNCATION and rules.no_removals is not None:
            raise BadRecordError(f"op 't' truncates: {rules.no_removals}")
        made = [self._row(kind, image, envelope) for kind, image in envelope.images]
        for kind, (arrays, names, left_out) in zip((kind for kind, _ in envelope.images), made, strict=True):
            if names:
                self._unavailable[len(self._rows)] = names
            self._rows.append(arrays)
            self._kinds.append(kind)
            self._records.append(number)
            self._left_out.append(left_out)
        return envelope.marker

    def _key_of(self, image: Mapping[str, Json]) -> tuple[Json, ...] | None:
        found = {column: name for name in image for column in matching(name, self._rules.key_fields)}
        if len(found) < len(self._rules.key_fields):
            return None
        values = tuple(value_of(image, found[name]) for name in self._rules.key_fields)
        return None if any(value is None for value in values) else values

    def _row(
        self, kind: RowKind, image: Mapping[str, Json], envelope: Envelope
    ) -> tuple[dict[str, pa.Array], tuple[str, ...], int]:
        """The columns of an image, those whose old value stays, and how many members were left out."""
        if not kind.is_add and self._rules.no_removals is not None:
            raise BadRecordError(f"an update or a delete: {self._rules.no_removals}")
        bound, unknown = bound_columns(image, envelope.columns, image, self._rules, seen=self._seen)
        if not envelope.is_key:
            types = {name: self._new_type(name, image, envelope.columns) for name in unknown}
            self._new_columns.add({name: one for name, one in types.items() if one is not None}, self._rules)
        arrays, names, left_out = {}, [], 0
        for column in bound:
            members: dict[MemberPath, Json] = {}
            arrays[column.target.name], is_missing = self._value(column, image, kind, members, envelope)
            if is_missing:
                names.append(column.target.name)
            if members and not envelope.is_key:
                left_out += self._unknown_members(members, envelope.columns)
        return all_columns(arrays, 1, self._rules), tuple(names), left_out

    def _unknown_members(self, members: Mapping[MemberPath, Json], columns: Columns) -> int:
        """How many of the unknown members are left out and counted; others are reported. Raises BadRecordError."""
        unknown = {path: value for path, value in members.items() if shown_path(path) not in self._rules.ignored}
        if self._rules.drops_members:
            return len(unknown)
        for path, value in unknown.items():
            kind = declared_type(path, columns or ()) or type_of_value(value)
            assert kind is not None, "a null is no unknown member"
            self._new_columns.add_member(path, kind, self._rules)
        return 0

    def _new_type(self, name: str, image: Mapping[str, Json], columns: Columns) -> DataType | None:
        declared = next((column for column in columns or () if column.name == name), None)
        return type_of_value(image[name]) if declared is None else declared.column_type

    def _value(
        self,
        column: BoundColumn,
        image: Mapping[str, Json],
        kind: RowKind,
        members: dict[MemberPath, Json],
        envelope: Envelope,
    ) -> tuple[pa.Array, bool]:
        """The value as an array of one, and whether it is the placeholder. Raises BadRecordError.

        Members that the column lacks go into `members`.
        """
        final = to_arrow_type(column.target.type)
        try:
            value = value_of(image, column.name)
            if is_unavailable(value, self._marks):
                if not self._rules.key_fields:
                    raise BadRecordError(
                        f"column {column.name!r} is unchanged and its value not in the record; a table without primary"
                        " key has no old value to take. Set REPLICA IDENTITY FULL in the database"
                    )
                return pa.nulls(1, final), kind.is_add
            if envelope.is_document:
                value = plain_inside(value, column.source)
            if column.source.is_nested:
                value = known_members(value, column.source, (column.target.name,), members.__setitem__)
            return column.fit(pa.array([column.parse(value)], to_arrow_type(column.source))), False
        except BadRecordError:
            raise
        except (JsonValueError, pa.ArrowException, OverflowError, ValueError, TypeError) as error:
            is_kind = isinstance(error, TypeError)  # Python's sentence names no value
            found = f"{cut(repr(value), _ERROR_MAX)} is no such value" if is_kind else cut(str(error), _ERROR_MAX)
            raise BadRecordError(
                f"wrong type: column {column.name!r}: {found}; the table has {column.target.type}"
            ) from error

    def rows(self) -> Piece:
        """The rows of the records that were added."""
        arrays = {
            column.name: pa.concat_arrays([row[column.name] for row in self._rows])
            if self._rows
            else pa.nulls(0, to_arrow_type(column.type))
            for column in self._rules.fields
        }
        return Piece(
            records=np.array(self._records, np.int64),
            kinds=np.array(self._kinds, np.int8),
            arrays=arrays,
            left_out=np.array(self._left_out, np.int64),
            unavailable=self._unavailable,
        )

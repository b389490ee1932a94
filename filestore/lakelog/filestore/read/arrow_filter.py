"""Filters of Arrow, which DuckDB pushes into datasets, as predicates that skip files and row groups.

Python cannot inspect an expression of Arrow. It can be pickled, and the pickled form is an Arrow file: the metadata of
its schema lists the calls in depth-first order, the columns of its only batch hold the literals and options. Source:
Arrow C++, `compute::Serialize` in `expression.cc`. An unknown call passes every row.

    call greater, field_ref id, literal 0, end greater
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any  # Any: Arrow has no types

import pyarrow as pa

from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import DataField, TypeRoot
from lakelog.filestore.predicate import Predicate, check_filter
from lakelog.filestore.predicate.tree import Compare, Comparison, IsNull, Literal, LiteralKind
from lakelog.filestore.read.engine_filters import joined, literal_of, membership

_COMPARISONS = {
    "equal": Comparison.EQ,
    "not_equal": Comparison.NE,
    "less": Comparison.LT,
    "less_equal": Comparison.LE,
    "greater": Comparison.GT,
    "greater_equal": Comparison.GE,
}
_CALLS_MAX = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A function call: its arguments (calls, column names, literals) and its options."""

    name: str
    inputs: list[_Call | str | pa.Scalar] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)


class ArrowFilter:
    """An expression of Arrow, parsed once."""

    def __init__(self, expression: Any) -> None:
        _, (pickled, *_) = expression.__reduce__()
        with pa.ipc.open_file(pickled) as file:
            self._steps = _metadata_pairs(file.schema)
            self._batch = file.get_batch(0) if file.num_record_batches else None

    def columns(self) -> set[str]:
        """The names of the columns that the expression reads, including those of which it reads members."""
        return {value for key, value in self._steps if key == "field_ref"}

    def predicate(self, fields: Sequence[DataField]) -> Predicate | None:
        """A filter that passes every row which the expression passes, and maybe more; None for unknown expressions.

        Expressions with more than 200 calls are not translated.
        """
        call = _call_of(self._steps, self._batch)
        return None if call is None else _predicate(call, {field.name: field for field in fields})


def _call_of(steps: Sequence[tuple[str, str]], batch: pa.RecordBatch | None) -> _Call | None:
    """An expression as a call; None for columns, literals, and unknown forms.

    `batch` holds the literals and options that the steps refer to.
    """
    if sum(key == "call" for key, _ in steps) > _CALLS_MAX:
        return None
    opened = [_Call(name="")]
    for key, value in steps:
        match key:
            case "call":
                call = _Call(name=value)
                opened[-1].inputs.append(call)
                opened.append(call)
            case "field_ref":
                opened[-1].inputs.append(value)
            case "literal" if batch is not None:
                opened[-1].inputs.append(batch.column(int(value))[0])
            case "options" if batch is not None:
                opened[-1].options.update(dict(batch.column(int(value))[0]))
            case "end":
                opened.pop()
            case _:  # a member of a column, a literal array
                return None
    (root,) = opened[0].inputs
    return root if isinstance(root, _Call) else None


def _predicate(call: _Call, fields: dict[str, DataField]) -> Predicate | None:
    if call.name in ("and_kleene", "or_kleene"):
        parts = [_predicate(part, fields) if isinstance(part, _Call) else None for part in call.inputs]
        return joined(parts, is_and=call.name == "and_kleene")
    if call.name == "if_else":  # DuckDB's IN: null for null, else is_in
        condition, then, other = call.inputs
        is_null_else = isinstance(other, pa.Scalar) and not other.is_valid
        is_guarded = isinstance(condition, _Call) and condition.name == "is_valid" and is_null_else
        return _predicate(then, fields) if is_guarded and isinstance(then, _Call) else None
    name, *literals = call.inputs or [None]
    column = fields.get(name) if isinstance(name, str) else None
    if column is None:
        return None
    match call.name:
        case "is_valid":
            return IsNull(column=column.name, is_negated=True)
        case "is_null":
            wants_nan = call.options["nan_is_null"].as_py()
            return None if wants_nan else IsNull(column=column.name, is_negated=False)
        case "is_in":
            return _fitting(membership(column, [_value_of(value) for value in call.options["value_set"]]), column)
    comparison, literal = _COMPARISONS.get(call.name), _literal(column, literals)
    if comparison is None or literal is None:
        return None
    return _fitting(Compare(column=column.name, operator=comparison, literal=literal), column)


def _fitting(predicate: Predicate | None, column: DataField) -> Predicate | None:
    """The predicate, unless its literals do not fit the column."""
    try:
        if predicate is not None:
            check_filter(predicate, [column])
    except InvalidRequestError:
        return None
    return predicate


def _literal(column: DataField, literals: Sequence[Any]) -> Literal | None:
    if len(literals) != 1 or not isinstance(literals[0], pa.Scalar):
        return None
    value = _value_of(literals[0])
    if isinstance(value, Decimal):
        is_decimal = column.type.root is TypeRoot.DECIMAL
        return Literal(kind=LiteralKind.NUMBER, value=value) if is_decimal else None
    return literal_of(column, value)


def _value_of(scalar: pa.Scalar) -> object:
    """The value of a literal. A timestamp with a zone is in UTC; None beyond the range of Python's dates."""
    kind = scalar.type
    if not pa.types.is_timestamp(kind) or not scalar.is_valid:
        return scalar.as_py()
    if kind.unit not in _MICROS:
        return None
    try:
        value = _EPOCH + timedelta(microseconds=scalar.value * _MICROS[kind.unit])
    except OverflowError:
        return None
    return value if kind.tz else value.replace(tzinfo=None)


class _ArrowSchema(ctypes.Structure):
    """The first members of Arrow's C structure of a schema. Source: Arrow C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _metadata_pairs(schema: pa.Schema) -> list[tuple[str, str]]:
    """The metadata of a schema in order: a dict would lose duplicate keys.

    In the C data interface the metadata are a count, then keys and values, each after its length; numbers have 32 bits.
    """
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address = _ArrowSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    if not address:
        return []
    strings = list(_strings(address))
    return list(zip(strings[::2], strings[1::2], strict=True))


def _strings(address: int) -> Iterator[str]:
    (count,) = struct.unpack("i", ctypes.string_at(address, 4))
    address += 4
    for _ in range(2 * count):
        (length,) = struct.unpack("i", ctypes.string_at(address, 4))
        yield ctypes.string_at(address + 4, length).decode()
        address += 4 + length

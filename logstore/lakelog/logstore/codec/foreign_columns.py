"""How a column of foreign records is read: from JSON into the type of its values, and from that type into the table's.

In columns where Arrow can, else value by value. A value that the table's type cannot hold exactly is refused, never
rounded.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Context, Decimal, InvalidOperation
from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.arrow import to_arrow_type
from lakelog.common.quoting import shown
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.logstore.codec.connect_types import BIGINT, STRING, ConnectColumn, Form
from lakelog.logstore.codec.foreign_fit import fitted
from lakelog.logstore.codec.foreign_forms import AssumedTimes, BinaryForm, ColumnForms, DecimalForm, ForeignForms
from lakelog.logstore.codec.json_columns import VARIABLE_DECIMAL, WireColumn, wire_column
from lakelog.logstore.codec.json_value import Json, JsonValueError, Parse, parser_of

_INTEGERS = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT})
_TEXT = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_TEMPORAL = frozenset({TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_BINARY = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BLOB})
_DECIMAL_BYTES = 16
_UNSCALED_BYTES_MAX = 512
_SCALE_MAX = 1_000
_WIDE = Context(prec=2_000, Emax=10_000, Emin=-10_000, traps=[InvalidOperation])


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundColumn:
    """A column of the records, read for the column `target` of the table.

    `name` is its name in the records. `source` is the type that `parse` and `wire` both give.
    """

    name: str
    target: DataField
    source: DataType
    parse: Parse
    wire: WireColumn | None

    def fit(self, values: pa.Array) -> pa.Array:
        """Values of the source's type in the target's type. Raises ArrowInvalid for a value that it cannot hold."""
        return fitted(values, self.source, self.target.type)


def bind(
    name: str,
    target: DataField,
    connect: ConnectColumn | None,
    sample: Json,
    *,
    options: ForeignForms,
    seen: AssumedTimes,
) -> BoundColumn:
    """How to read the column `name` for `target`, by its schema, or without a schema by the connector's options.

    `sample` is one of its values, None if it has no value: it says what Arrow's parser can read. Times of an assumed
    unit are noted in `seen`.
    """
    field = DataField(id=target.id, name=name, type=target.type.with_nullable(True))
    forms = ColumnForms(forms=options, path=(target.name,), seen=seen)
    if field.type.root in _BINARY and options.binaries is BinaryForm.HEX:
        return _converted(field, target, pa.string(), bytes.fromhex)
    if connect is None:
        if field.type.root is TypeRoot.DECIMAL and isinstance(sample, str):
            return _undeclared(field, target, forms)
        is_variable = isinstance(sample, Mapping) and sample.keys() == {"scale", "value"}
        is_number = field.type.root in _TEXT or field.type.root is TypeRoot.DECIMAL
        return _variable(field, target) if is_variable and is_number else _plain(field, target, sample, forms)
    declared = replace(forms, declared=connect.type)
    match connect.form:
        case Form.BASE64_DECIMAL:
            return _unscaled(field, target, connect)
        case Form.VARIABLE_DECIMAL:
            return _variable(field, target)
    kind = field.type
    if kind.is_nested or (kind.root in _TEXT and (connect.type.is_nested or connect.type.root in _BINARY)):
        return _plain(field, target, None, declared)
    if connect.form is Form.PLAIN and connect.type.root in _INTEGERS and kind.root in _TEMPORAL:
        return _plain(field, target, 0, forms)  # a number whose unit the schema does not say
    if connect.form is Form.NUMBER and kind.root in _INTEGERS:
        return _plain(DataField(id=0, name=name, type=BIGINT), target, None, declared)
    if connect.type.root in _TEXT and kind.root is TypeRoot.DECIMAL:
        return _converted(field, target, pa.string(), partial(_decimal_of_text, kind=kind))
    if connect.type.root in _TEXT or connect.type.root is kind.root or kind.root in _BINARY:
        source = kind if connect.type.root in _TEXT else connect.type
        sample = 0 if connect.form is Form.NUMBER else "" if connect.type.root in _TEXT else None
        return _plain(DataField(id=0, name=name, type=source), target, sample, declared)
    sample = 0 if connect.form is Form.NUMBER else None
    return _plain(DataField(id=0, name=name, type=connect.type), target, sample, declared)


def _plain(field: DataField, target: DataField, sample: Json, forms: ColumnForms) -> BoundColumn:
    wire: WireColumn | None
    if forms.forms.binaries is BinaryForm.HEX and _has_binaries(field.type):
        wire = None
    elif field.type.root in _TEMPORAL and isinstance(sample, str):
        wire = WireColumn(field, pa.string(), partial(_of_iso_text, kind=field))
    else:
        wire = wire_column(field, sample, forms)
    return BoundColumn(name=field.name, target=target, source=field.type, parse=parser_of(field.type, forms), wire=wire)


def _has_binaries(kind: DataType) -> bool:
    inside = [kind.element, kind.value, *(member.type for member in kind.fields)]
    return kind.root in _BINARY or any(_has_binaries(one) for one in inside if one is not None)


def _of_iso_text(array: pa.Array, *, kind: DataField) -> pa.Array:
    """Dates, times of day and timestamps as strings, which may end in the Z of UTC."""
    usual = wire_column(kind)
    assert usual is not None
    if kind.type.root is TypeRoot.TIMESTAMP_LTZ:
        return usual.convert(array)
    texts = pl.Series(array, dtype=pl.String).str.strip_suffix("Z")
    return usual.convert(texts.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(pa.string()))


def _converted(
    field: DataField,
    target: DataField,
    wire: pa.DataType,
    parse: Parse,
    convert: Callable[[pa.Array], pa.Array] | None = None,
) -> BoundColumn:
    """A column with a form of its own; without `convert` it is read value by value."""
    final = to_arrow_type(field.type)

    def one(value: Json) -> Json:
        if value is None:
            return None
        try:
            return parse(value)
        except JsonValueError:
            raise
        except (ValueError, TypeError, KeyError, ArithmeticError) as error:
            raise JsonValueError(f"{shown(value)} is not of the type {field.type}") from error

    by_value = convert or (lambda array: pa.array(map(one, array.to_pylist()), final))
    return BoundColumn(
        name=field.name, target=target, source=field.type, parse=one, wire=WireColumn(field, wire, by_value)
    )


# Decimals: an unscaled number, big-endian in two's complement, in base64.


def _unscaled(field: DataField, target: DataField, connect: ConnectColumn) -> BoundColumn:
    """A Decimal. If the target is a DECIMAL of another form, the source keeps the digits of the Decimal."""
    if connect.type.root is not TypeRoot.DECIMAL or target.type.root in _TEXT:
        text = DataField(id=0, name=field.name, type=STRING)
        parse = partial(_text_of_unscaled, scale=connect.scale)
        return _converted(text if target.type.root in _TEXT else field, target, pa.string(), _as(field.type, parse))
    source = DataField(id=0, name=field.name, type=connect.type)
    return _converted(
        source,
        target,
        pa.string(),
        partial(_decimal_of_base64, kind=connect.type),
        lambda array: decimals_of_base64(array, to_arrow_type(connect.type)),
    )


def _undeclared(field: DataField, target: DataField, forms: ColumnForms) -> BoundColumn:
    """Decimals as strings without a schema, by the connector's option."""
    if forms.forms.decimals is DecimalForm.DOUBLE:
        return _plain(field, target, None, forms)
    is_base64 = forms.forms.decimals is DecimalForm.PRECISE
    in_columns = partial(decimals_of_base64, kind=to_arrow_type(field.type)) if is_base64 else None
    return _converted(field, target, pa.string(), parser_of(field.type, forms), in_columns)


def _variable(field: DataField, target: DataField) -> BoundColumn:
    source = field if target.type.root is TypeRoot.DECIMAL else DataField(id=0, name=field.name, type=STRING)
    return _converted(source, target, VARIABLE_DECIMAL, _as(source.type, _text_of_variable))


def _as(kind: DataType, text_of: Callable[[Json], str]) -> Parse:
    """The number as a string, or as a value of a type other than STRING."""
    if kind.root in _TEXT:
        return text_of
    parse = parser_of(kind)
    if kind.root is TypeRoot.DECIMAL:
        return lambda value: _decimal_of_text(text_of(value), kind=kind)
    return lambda value: parse(Decimal(text_of(value)))


def _text_of_variable(value: Json) -> str:
    if not isinstance(value, Mapping):
        return _text_of_number(value)
    scale = value["scale"]
    if type(scale) is not int:
        raise TypeError
    return _text_of_unscaled(value["value"], scale=scale)


def _text_of_unscaled(value: Json, *, scale: int) -> str:
    if not isinstance(value, str):
        return _text_of_number(value)
    data = base64.b64decode(value, validate=True)
    if not 0 < len(data) <= _UNSCALED_BYTES_MAX or abs(scale) > _SCALE_MAX:
        raise ValueError
    return format(Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, _WIDE), "f")


def _text_of_number(value: Json) -> str:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise TypeError
    if isinstance(value, Decimal) and abs(value.adjusted()) > _SCALE_MAX:
        raise ValueError
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _decimal_of_base64(value: Json, *, kind: DataType) -> Decimal:
    return _decimal_of_text(_text_of_unscaled(value, scale=kind.scale or 0), kind=kind)


def _decimal_of_text(value: Json, *, kind: DataType) -> Decimal:
    """Raises JsonValueError for a number that a DECIMAL cannot hold exactly."""
    if not isinstance(value, str):
        value = _text_of_number(value)
    try:
        number = Decimal(value.strip())
    except InvalidOperation as error:
        raise JsonValueError(f"{shown(value)} is not a number") from error
    scale, digits = kind.scale or 0, kind.precision or 0
    if not number.is_finite() or number.adjusted() >= digits or number.adjusted() < -_SCALE_MAX:
        raise JsonValueError(f"{shown(value)} is not of the type {kind.with_nullable(True)}")
    scaled = number.scaleb(scale, _WIDE)
    if scaled != scaled.to_integral_value() or abs(scaled) >= 10**digits:
        raise JsonValueError(f"{shown(value)} is not of the type {kind.with_nullable(True)}")
    return Decimal(int(scaled)).scaleb(-scale, _WIDE)


def decimals_of_base64(array: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Unscaled big-endian numbers in base64 as decimals, columnar. Raises JsonValueError for one that does not fit.

    Numbers have at most 16 bytes. The values of a column have few different lengths, so there is one step for each
    length.
    """
    strings = pl.Series(array, dtype=pl.String)
    try:
        raw = strings.str.decode("base64", strict=True)
    except pl.exceptions.PolarsError as error:
        raise JsonValueError("it is not base64") from error
    sizes = raw.bin.size().fill_null(0).to_numpy()
    is_value = np.asarray(array.is_valid())
    if (sizes[is_value] == 0).any() or (sizes > _DECIMAL_BYTES).any():
        raise JsonValueError("it is not an unscaled number of at most 16 bytes")
    little = np.zeros((len(array), _DECIMAL_BYTES), np.uint8)
    for size in np.unique(sizes[is_value]).tolist():
        places = np.flatnonzero(is_value & (sizes == size))
        data = np.frombuffer(b"".join(raw.gather(places).to_list()), np.uint8).reshape(len(places), size)
        little[places, :size] = data[:, ::-1]
        little[places, size:] = np.where(data[:, :1] >= 128, np.uint8(255), np.uint8(0))  # the sign
    validity = None if is_value.all() else pa.array(is_value).buffers()[1]
    made = pa.Array.from_buffers(pa.decimal128(38, kind.scale), len(array), [validity, pa.py_buffer(little)])
    limit = pa.scalar(Decimal(10) ** (kind.precision - kind.scale), pa.decimal256(76, kind.scale))
    wide = made.cast(pa.decimal256(76, kind.scale))
    if pc.any(pc.greater_equal(pc.abs(wide), limit)).as_py():
        raise JsonValueError(f"a number has more digits than {kind}")
    return made.cast(kind)

"""The column types of a Kafka Connect schema, as its JsonConverter writes it beside each record.

A schema is an object {"type", "optional", "name", "parameters", "fields" | "items" | "keys" and "values", "field"};
`name` is the logical type. Source: Kafka, "JsonConverter"; Debezium's documentation, "Data type mappings" of each
connector.

| Connect | column |
|---|---|
| boolean, int8, int16, int32, int64, float, double, string, bytes | BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT,
DOUBLE, STRING, BYTES |
| array, map, struct (geometry, vectors) | ARRAY, MAP, ROW |
| Date | DATE |
| Time, MicroTime, NanoTime | TIME(3), TIME(6), TIME(9); a new column of the last two is STRING |
| Timestamp, MicroTimestamp, NanoTimestamp | TIMESTAMP(3), TIMESTAMP(6), TIMESTAMP(9) |
| ZonedTimestamp | TIMESTAMP(6) WITH LOCAL TIME ZONE |
| Decimal | DECIMAL(precision or 38, scale) |
| VariableScaleDecimal, and a Decimal beyond 38 digits | STRING |
| MicroDuration, NanoDuration | BIGINT |
| Json, Xml, Uuid, Enum, EnumSet, Ltree, Interval, Iso* | STRING |
| Bits | BYTES |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any  # Any: parsed JSON is untyped until it is checked here

from lakelog.common.json_fields import items, member, optional, string
from lakelog.common.quoting import shown
from lakelog.common.types import FIELDS_MAX, MAX_LENGTH, DataField, DataType, TypeRoot, array_of, map_of, row_of

DEPTH_MAX = 32
DECIMAL_DIGITS_MAX = 38
SPARK_DIGITS_MAX = 6  # of a second
TIME_DIGITS_MAX = 3  # files hold times of day in milliseconds

STRING = DataType(root=TypeRoot.VARCHAR, length=MAX_LENGTH)
BYTES = DataType(root=TypeRoot.VARBINARY, length=MAX_LENGTH)
BIGINT = DataType(root=TypeRoot.BIGINT)

_PLAIN = {
    "boolean": DataType(root=TypeRoot.BOOLEAN),
    "int8": DataType(root=TypeRoot.TINYINT),
    "int16": DataType(root=TypeRoot.SMALLINT),
    "int32": DataType(root=TypeRoot.INT),
    "int64": BIGINT,
    "float": DataType(root=TypeRoot.FLOAT),
    "float32": DataType(root=TypeRoot.FLOAT),
    "double": DataType(root=TypeRoot.DOUBLE),
    "float64": DataType(root=TypeRoot.DOUBLE),
    "string": STRING,
    "bytes": BYTES,
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
_LOGICAL = {
    "io.debezium.time.Date": DataType(root=TypeRoot.DATE),
    "org.apache.kafka.connect.data.Date": DataType(root=TypeRoot.DATE),
    "io.debezium.time.Time": DataType(root=TypeRoot.TIME, precision=3),
    "org.apache.kafka.connect.data.Time": DataType(root=TypeRoot.TIME, precision=3),
    "io.debezium.time.MicroTime": DataType(root=TypeRoot.TIME, precision=6),
    "io.debezium.time.NanoTime": DataType(root=TypeRoot.TIME, precision=9),
    "io.debezium.time.Timestamp": DataType(root=TypeRoot.TIMESTAMP, precision=3),
    "org.apache.kafka.connect.data.Timestamp": DataType(root=TypeRoot.TIMESTAMP, precision=3),
    "io.debezium.time.MicroTimestamp": DataType(root=TypeRoot.TIMESTAMP, precision=6),
    "io.debezium.time.NanoTimestamp": DataType(root=TypeRoot.TIMESTAMP, precision=9),
    "io.debezium.time.ZonedTimestamp": DataType(root=TypeRoot.TIMESTAMP_LTZ, precision=6),
}
_LOGICAL_OF_NUMBERS = frozenset({"int32", "int64"})


class Form(Enum):
    """How a value is written in JSON, if its type alone does not say it."""

    PLAIN = "as the codec reads the type"
    NUMBER = "a count of days, or of the type's unit"
    BASE64_DECIMAL = "an unscaled number in base64, or a JSON number"
    VARIABLE_DECIMAL = "an object of scale and unscaled number"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectColumn:
    """A column of the foreign table. `type` is the type of its values, `scale` the scale of a Decimal."""

    name: str
    type: DataType
    form: Form
    scale: int = 0

    @property
    def column_type(self) -> DataType:
        """The type of a new column.

        A time of day beyond milliseconds is a STRING, and timestamps have no more digits than Spark's.

        Inside nested types a count of smaller units is a BIGINT, since nothing converts it there.
        """
        digits = self.type.precision or 0
        if self.type.root is TypeRoot.TIME and digits > TIME_DIGITS_MAX:
            return STRING
        if self.type.root is TypeRoot.TIMESTAMP and digits > SPARK_DIGITS_MAX:
            return DataType(root=TypeRoot.TIMESTAMP, precision=SPARK_DIGITS_MAX)
        return new_type(self.type)


def new_type(kind: DataType) -> DataType:
    """A type with members whose values need no conversion."""
    digits = kind.precision or 0
    is_time = kind.root is TypeRoot.TIME and digits > TIME_DIGITS_MAX
    if is_time or (kind.root is TypeRoot.TIMESTAMP and digits > SPARK_DIGITS_MAX):
        return BIGINT
    return replace(
        kind,
        element=None if kind.element is None else new_type(kind.element),
        value=None if kind.value is None else new_type(kind.value),
        fields=tuple(replace(member, type=new_type(member.type)) for member in kind.fields),
    )


def columns_of_envelope(schema: object) -> tuple[ConnectColumn, ...] | None:
    """The columns of the images in the schema of a Debezium envelope; None where its images are strings (MongoDB).

    Raises ValueError for a schema of something else.
    """
    fields = _fields_of(schema)
    image = next((found for name in ("after", "before") if (found := _field(fields, name)) is not None), None)
    if image is None or _field(fields, "op") is None:
        raise ValueError("its schema is not one of a change: it has no fields 'before', 'after' and 'op'")
    if image.get("type") == "string":
        return None
    columns = tuple(_column(field, depth=0) for field in _fields_of(image))
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        raise ValueError("its schema has a column twice")
    return columns


def _fields_of(schema: object) -> Sequence[Mapping[str, Any]]:
    if not isinstance(schema, Mapping):
        raise ValueError(f"its schema is {shown(schema)}; expected an object")  # noqa: TRY004  # callers expect one error
    try:
        found = items(schema, "fields")
    except KeyError as error:
        raise ValueError("its schema is no struct: it has no 'fields'") from error
    if len(found) > FIELDS_MAX:
        raise ValueError(f"its schema has {len(found)} fields; at most {FIELDS_MAX} are read")
    if not all(isinstance(field, Mapping) for field in found):
        raise ValueError("its schema has a field that is no object")
    return found


def _field(fields: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    return next((field for field in fields if field.get("field") == name), None)


def _column(field: Mapping[str, Any], *, depth: int) -> ConnectColumn:
    try:
        name = string(field, "field")
    except KeyError as error:
        raise ValueError("its schema has a field without a name") from error
    kind, form, scale = _type_of(field, depth=depth)
    return ConnectColumn(name=name, type=kind, form=form, scale=scale)


def _type_of(schema: Mapping[str, Any], *, depth: int) -> tuple[DataType, Form, int]:
    """Type, form and scale. Raises ValueError."""
    if depth > DEPTH_MAX:
        raise ValueError(f"its schema is nested deeper than {DEPTH_MAX}")
    word, logical = schema.get("type"), schema.get("name")
    if logical == _DECIMAL and word == "bytes":
        return _decimal(schema)
    if logical == _VARIABLE_DECIMAL:
        return STRING, Form.VARIABLE_DECIMAL, 0
    kind = _LOGICAL.get(logical) if isinstance(logical, str) else None
    if kind is not None and word in _LOGICAL_OF_NUMBERS:
        return kind, Form.NUMBER, 0
    if kind is not None and word == "string":
        return kind, Form.PLAIN, 0
    if isinstance(word, str) and word in _PLAIN:
        return _PLAIN[word], Form.PLAIN, 0
    try:
        if word == "array":
            return array_of(_type_of(member(schema, "items"), depth=depth + 1)[0]), Form.PLAIN, 0
        if word == "map":
            key, value = (_type_of(member(schema, part), depth=depth + 1)[0] for part in ("keys", "values"))
            return map_of(key, value), Form.PLAIN, 0
    except KeyError as error:
        raise ValueError(f"its schema has a type {word} without {error}") from error
    if word == "struct":
        members = [_column(field, depth=depth + 1) for field in _fields_of(schema)]
        return row_of([DataField(id=0, name=one.name, type=one.type) for one in members]), Form.PLAIN, 0
    raise ValueError(f"its schema has the type {shown(word)}, which Kafka Connect does not have")


def _decimal(schema: Mapping[str, Any]) -> tuple[DataType, Form, int]:
    parameters = optional(member, schema, "parameters") or {}
    scale, precision = _number(parameters, "scale"), _number(parameters, "connect.decimal.precision")
    digits = DECIMAL_DIGITS_MAX if precision is None else precision
    if scale is None:
        raise ValueError("its schema has a Decimal without a scale")
    if not 0 <= scale <= digits or not 1 <= digits <= DECIMAL_DIGITS_MAX:
        return STRING, Form.BASE64_DECIMAL, scale
    return DataType(root=TypeRoot.DECIMAL, precision=digits, scale=scale), Form.BASE64_DECIMAL, scale


def _number(parameters: Mapping[str, Any], key: str) -> int | None:
    text = parameters.get(key)
    if text is None:
        return None
    if not isinstance(text, str) or not text.lstrip("-").isdecimal() or len(text) > 6:
        raise ValueError(f"its schema has {key} {shown(text)}; expected a number")
    return int(text)

"""Records of a topic as they should not be: seeded damage to debezium-json, byte by byte and value by value."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from lakelog.common.types import DataField, DataType, TypeRoot, array_of, map_of, parse_type, row_of

_SCALARS = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(4, 0)", "DECIMAL(9, 2)",
    "DECIMAL(38, 0)", "DECIMAL(38, 38)", "CHAR(3)", "STRING", "BYTES", "DATE", "TIME(0)", "TIME(3)", "TIME(6)",
    "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP(3) WITH LOCAL TIME ZONE",
)  # fmt: skip
_NAMES = ("id", "v", "w", "before", "op", "payload", "ü", 'q"', "a\\b")
_PLAIN: dict[TypeRoot, list[str]] = {
    TypeRoot.BOOLEAN: ["true", "false"],
    TypeRoot.FLOAT: ["0.5", "-0.0", '"NaN"', "3.4028235e38"],
    TypeRoot.DOUBLE: ["0.1", "-0.0", '"Infinity"', "1.7976931348623157e308"],
    TypeRoot.CHAR: ['"abc"', '"\\u0000"', '"ü€x"'],
    TypeRoot.VARCHAR: ['"abc"', '""', '"\\u0000"', '"\\ud83d\\ude00"', '"😀"', '"\\\\ud800"'],
    TypeRoot.VARBINARY: ['""', '"3q0="', '"1234"'],
    TypeRoot.DATE: ['"2024-02-29"', '"-0001-01-01"', "19782"],
    TypeRoot.TIME: ['"23:59:59"', '"00:00:00.000"', "1", '"12:30"'],
    TypeRoot.TIMESTAMP: ['"2024-02-29 23:59:59"', '"2024-02-29 23:59:59.123"', "1710723723"],
    TypeRoot.TIMESTAMP_LTZ: ['"2024-02-29 23:59:59Z"', '"2024-02-29 23:59:59.123Z"', '"2024-02-29T23:59:59+01:00"'],
}
_ODD_VALUES = (
    "null", "true", "0", "1", "-1", "127", "128", "-129", "32768", "2147483648", "-2147483649",
    "9223372036854775807", "9223372036854775808", "1e2", "1E+2", "1e-2", "1.0", "1.5", "1e400", "-1e400", "1e39",
    "1e1000000", "-1e-1000000", "1e99999999999", "1e99999999999999999999", "9" * 38, "9" * 39, "9" * 300, "9" * 400,
    "9" * 5000,
    "0." + "9" * 38, "1.00", "1.005", "01", "+1", ".5", "1.", "0x1", "NaN", "Infinity", "-Infinity", '"NaN"', '"nan"',
    '"-Infinity"', '"1"', '" 1"', '"1_0"', '"\uff11\uff12"', '"1.5"', '"1e2"', '"1234"', '"123.4"', '"12=="', '"3q1="',
    '"Infinity"', '""', '"x"', '"true"', '"TRUE"', '"\\ud800"', '"\\udc00"', '"\\ud800\\ud800"', '"\\u0000"', '"\\x"',
    '"2024-02-30"', '"2024-1-1"', '"\uff12\uff10\uff12\uff14-01-01"', '"2024-02-29"', '"99999999-01-01"',
    '"-9999999-01-01"',
    '"2024-02-29 24:00:00"', '"2024-02-29 23:59:60"', '"2024-02-29 12"', '"2024-02-29 12:30"', '"2024-02-29T"',
    '"2024-02-29 12:30:00.1234567890"', '"2024-02-29 12:30:00.123456789"', '"2024-02-29 12:30:00 Z"', '"2024-02-29Z"',
    '"2024-02-29 12:30:00+99:99"', '"2024-02-29 12:30:00+01"', '"2024-02-29 12:30:00+0100"', '"20240229"', '"12"',
    '"12:30"', '"24:00:00"', '"23:59:60"', '"12:30:00Z"', '"12:30:00.1234567"', '"1:2:3"', '"123000"', "86400000",
    "86400000000", "86399999", "-86400", "4611686018427387904", "[]", "[1]", '["1234"]', '["x"]', "[null]", "[[1]]",
    "{}", '{"a":1}', '{"a":1,"a":2}', '{"1":1,"01":2}', '{"null":1}', '{"id":1,"v":"x"}', '{"scale":1,"value":"AQ=="}',
    '{"scale":-1000000,"value":"AQ=="}', '{"scale":"1","value":"AQ=="}', '{"value":"AQ=="}',
    "[" * 40 + "]" * 40, "[" * 200_000, "[" * 20_000 + "]" * 20_000, '{"a":' * 20_000 + "1" + "}" * 20_000,
)  # fmt: skip
_UNKNOWN_VALUES = [value for value in _ODD_VALUES if len(value) < 1_000]  # of columns that were not asked for
_ODD_BYTES = (
    b"", b"\0", b"\xff", b"\xef\xbb\xbf", b"\n", b"\r\n", b" ", b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"x",
    b"{}", b'{"id":1}', b'{"id":1}{"id":2}\0', b"\xed\xa0\x80", b"\\ud800", b"\\u0069", b"\xc3", b"\xe2\x80\xa8", b"//",
    b"/**/", b",null", b'"op":"c",', b'"id":7,',
)  # fmt: skip


def odd_fields(chance: random.Random) -> list[DataField]:
    """Columns of any types, some NOT NULL, the first one a key."""
    names = ["id", *chance.sample(_NAMES[1:], chance.randint(0, 3))]
    kinds = [parse_type("INT NOT NULL"), *(_kind(chance, 2) for _ in names[1:])]
    return [DataField(id=at, name=name, type=kind) for at, (name, kind) in enumerate(zip(names, kinds, strict=True))]


def _kind(chance: random.Random, depth: int) -> DataType:
    form = chance.random() if depth else 0
    if form < 0.7:
        kind = parse_type(chance.choice(_SCALARS))
    elif form < 0.8:
        kind = array_of(_kind(chance, depth - 1))
    elif form < 0.9:
        members = [DataField(id=at, name=name, type=_kind(chance, depth - 1)) for at, name in enumerate(("id", "v"))]
        kind = row_of(members)
    else:
        kind = map_of(parse_type(f"{chance.choice(_SCALARS)} NOT NULL"), _kind(chance, depth - 1))
    return kind.with_nullable(chance.random() < 0.8)


def odd_records(chance: random.Random, fields: list[DataField]) -> list[bytes]:
    """A few records, in one form or in several, most of them right."""
    form = chance.choice((_canonical, _canonical, _spaced, _wrapped, _mixed))
    records = [form(chance, _envelope(chance, fields)) for _ in range(chance.randint(1, 4))]
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        at = chance.randrange(len(records))
        records[at] = _damaged(chance, records[at])
    return records


def _envelope(chance: random.Random, fields: list[DataField]) -> str:
    op = chance.choice("cccudr")
    before = "null" if op in "cr" else _image(chance, fields)
    after = "null" if op == "d" else _image(chance, fields)
    return f'{{"before":{before},"after":{after},"op":"{op}"}}'


def _image(chance: random.Random, fields: list[DataField]) -> str:
    pairs = [(field.name, _value(chance, field.type)) for field in fields]
    if chance.random() < 0.05:
        pairs[chance.randrange(len(pairs))] = (chance.choice(pairs)[0], chance.choice(_ODD_VALUES))
    match chance.randrange(40):
        case 0:
            pairs.pop()
        case 1:
            pairs.append(chance.choice(pairs))
        case 2:
            pairs[0] = (pairs[0][0].upper(), pairs[0][1])
        case 3:
            pairs.append(("unknown", chance.choice(_UNKNOWN_VALUES)))
        case 4:
            chance.shuffle(pairs)
    return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{value}" for name, value in pairs) + "}"


def _value(chance: random.Random, kind: DataType) -> str:
    if chance.random() < 0.15:
        return "null" if kind.nullable or chance.random() < 0.05 else _value(chance, kind)
    if chance.random() < 0.03:
        return chance.choice(_ODD_VALUES)
    if kind.element is not None:
        return "[" + ",".join(_value(chance, kind.element) for _ in range(chance.randint(0, 3))) + "]"
    if kind.fields:
        return _image(chance, list(kind.fields))
    if kind.key is not None and kind.value is not None:
        names = {_value(chance, kind.key).strip('"') for _ in range(chance.randint(0, 2))}
        return "{" + ",".join(f'"{name}":{_value(chance, kind.value)}' for name in names) + "}"
    if kind.root is TypeRoot.DECIMAL and (kind.precision or 0) - (kind.scale or 0) < 4:
        return chance.choice(["0", "0.5", "-0.00"])
    digits = kind.precision or 0
    if kind.root in (TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ) and digits < 3:
        return chance.choice([text for text in _PLAIN[kind.root] if "." not in text])
    return chance.choice(_PLAIN.get(kind.root, ["0", "1", "-7", "100"]))


def _canonical(_: random.Random, text: str) -> bytes:
    return text.encode()


def _spaced(_: random.Random, text: str) -> bytes:
    return text.replace('":', '" : ').encode()


def _wrapped(_: random.Random, text: str) -> bytes:
    return f'{{"schema":null,"payload":{text}}}'.encode()


def _mixed(chance: random.Random, text: str) -> bytes:
    form: Callable[[random.Random, str], bytes] = chance.choice((_canonical, _spaced, _wrapped))
    return form(chance, text)


def _damaged(chance: random.Random, record: bytes) -> bytes:
    at = chance.randrange(len(record) + 1)
    odd = chance.choice(_ODD_BYTES)
    match chance.randrange(7):
        case 0:
            return record[:at] + odd + record[at:]
        case 1:
            return record[:at] + odd + record[at + 1 :]
        case 2:
            return record[:at]
        case 3:
            return chance.choice((b"", odd, odd + record, record + odd, record + record))
        case 4:
            return record[:at] + bytes([chance.randrange(256)]) + record[at + 1 :]
        case 5:
            other = chance.randrange(len(record) + 1)
            return record[: min(at, other)] + record[max(at, other) :]
        case _:
            return record.replace(chance.choice((b'"id"', b'"op"', b'"after"', b"}", b'"', b"null")), odd, 1)

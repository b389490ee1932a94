"""Records of a topic that were changed: refused by their offset, or rows of the right types, and soon.

And always as the reader does that reads value by value: the one in columns gives its rows, or its very error.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import LakelogError
from lakelog.common.types import DataField, DataType, array_of, map_of, parse_type, row_of
from lakelog.logstore.codec.debezium import encode_changes
from lakelog.logstore.codec.encoded_records import Changes
from lakelog.logstore.codec.envelope import _read_one_by_one, read_changes
from lakelog.logstore.options import ChangelogMode
from tests.support.attacks.json_attacks import attacked
from tests.support.attacks.odd_records import odd_fields, odd_records
from tests.support.tables.column_types import exact_rows

SECONDS_MAX = 2.0
RECORDS = 4
TYPES: dict[str, DataType] = {
    "id": parse_type("INT NOT NULL"),
    "l": parse_type("BIGINT"),
    "x": parse_type("DECIMAL(38, 10)"),
    "f": parse_type("DOUBLE"),
    "s": parse_type("STRING"),
    "y": parse_type("BYTES"),
    "b": parse_type("BOOLEAN"),
    "d": parse_type("DATE"),
    "ts": parse_type("TIMESTAMP(6)"),
    "z": parse_type("TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    "tm": parse_type("TIME(3)"),
    "a": array_of(parse_type("DECIMAL(5, 2)")),
    "m": map_of(parse_type("STRING"), parse_type("INT")),
    "r": row_of([DataField(id=20, name="p", type=parse_type("DOUBLE"))]),
}
FIELDS = [DataField(id=number, name=name, type=kind) for number, (name, kind) in enumerate(TYPES.items())]
NUMBERS = ("1e1000000", "-1e1000000", "1e99999999999", "1e-99999999999", "9" * 5_000, "0." + "9" * 5_000, "1E400", "-0")
BYTES = (b"\xef\xbb\xbf", b"\xff", b"\xed\xa0\x80", b"\x00", b"\xc0\x80")


def _records(names: list[str]) -> list[bytes]:
    """A record of each kind, of some of the columns."""
    rows = [
        {
            "id": number,
            "l": 1 << 62,
            "x": Decimal("12345678901234567890.5"),
            "f": 1e300,
            "s": 'a"\\é',
            "y": b"\x00\xff",
            "b": True,
            "d": date(2024, 2, 29),
            "ts": datetime(2024, 2, 29, 12, 0, 0, 1),
            "z": datetime(2024, 2, 29, 12),
            "tm": (datetime(2024, 1, 1) + timedelta(milliseconds=5)).time(),
            "a": [Decimal("1.50"), None],
            "m": [("k", 1)],
            "r": {"p": 0.5},
        }
        for number in range(RECORDS + 1)
    ]
    fields = [field for field in FIELDS if field.name in names]
    schema = to_arrow_schema(fields)
    table = pa.Table.from_pylist([{name: row[name] for name in names} for row in rows], schema=schema)
    kinds = pa.array([0, 3, 1, 2, 0], pa.int8())
    table = table.take(pa.array([0, 1, 2, 2, 3]))
    return [bytes(value) for value in encode_changes(table, kinds, fields, ["id"], ChangelogMode.ALL).values]


def _changed(record: bytes, chance: random.Random) -> bytes:
    """The record with a number, some bytes or a value of it changed."""
    choice = chance.random()
    if choice < 0.2:
        at = chance.randrange(len(record))
        return record[:at] + chance.choice(BYTES) + record[at:]
    if choice < 0.4:
        value = json.loads(record)
        image = value["after"] or value["before"]
        image[chance.choice(sorted(image))] = "\u2620"
        return json.dumps(value).replace('"\\u2620"', chance.choice(NUMBERS)).encode()
    return attacked(record.decode(), chance)


def _outcome(read: Callable[[], Changes], what: str) -> tuple[object, ...]:
    """Rows with their kinds and records, or the error; nothing else may come."""
    try:
        changes = read()
    except LakelogError as error:
        return type(error), str(error)
    except Exception as error:  # noqa: BLE001 - what must not come is reported with the seed
        pytest.fail(f"{what}: {error!r}")
    changes.rows.validate(full=True)
    return changes.rows.schema, exact_rows(changes.rows), changes.kinds.tolist(), changes.records.tolist()


def _check(records: list[bytes], fields: list[DataField], what: str) -> str | None:
    """The error that records are refused with, None where they are read. Fails where the two readers differ."""
    start = time.process_time()
    fast = _outcome(lambda: read_changes(records, fields, "t/0@{}".format), what)
    assert time.process_time() - start < SECONDS_MAX, what
    slow = _outcome(lambda: _read_one_by_one(records, fields, "t/0@{}".format), what)
    assert fast == slow, what
    if isinstance(fast[0], type):
        return str(fast[1])
    assert fast[0] == to_arrow_schema(fields), what
    return None


def _attack(seed: int) -> bool:
    """Whether the one record of a batch that was changed was refused."""
    chance = random.Random(f"decoder {seed}")
    names = ["id", *chance.sample([name for name in TYPES if name != "id"], chance.randint(1, 5))]
    names.sort(key=list(TYPES).index)
    fields = [field for field in FIELDS if field.name in names]
    records = _records(names)
    victim = chance.randrange(len(records))
    records[victim] = _changed(records[victim], chance)
    what = f"seed {seed}, record {victim}: {records[victim][:400]!r}"
    error = _check(records, fields, what)
    assert error is None or (f"t/0@{victim}" in error and len(error) < 2_000), f"{what}: {error}"
    return error is not None


def _attack_all(seed: int) -> None:
    """A batch of records any of which may be odd, of columns of any type."""
    chance = random.Random(seed)
    fields = odd_fields(chance)
    error = _check(odd_records(chance, fields), fields, f"odd seed {seed}")
    assert error is None or ("t/0@" in error and len(error) < 2_000), f"odd seed {seed}: {error}"


def test_changed_records_are_refused_by_their_offset_or_harmless() -> None:
    refused = sum(_attack(seed) for seed in range(300))
    assert refused > 100


def test_odd_records_are_read_alike_in_columns_and_one_by_one() -> None:
    for seed in range(300):
        _attack_all(seed)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("beside", ['"befo,e" : {"id" : 1,"v" : %s}', '"before" : {"id" : 1,"v" : 0,"w" : %s}'])
def test_what_is_not_json_is_refused_in_members_that_no_column_has(word: str, beside: str) -> None:
    fields = [field for field in FIELDS if field.name == "id"]
    record = ("{" + beside % word + ',"after" : {"id" : 2},"op" : "u"}').encode()
    good = b'{"before" : null,"after" : {"id" : 1},"op" : "c"}'
    error = _check([good, record], fields, word)
    assert error is not None
    assert "t/0@1" in error


@pytest.mark.full
@pytest.mark.timeout(1_800)
def test_10_000_changed_records_are_refused_by_their_offset_or_harmless() -> None:
    refused = sum(_attack(seed) for seed in range(10_000))
    assert refused > 3_000


@pytest.mark.full
@pytest.mark.timeout(1_800)
def test_10_000_batches_of_odd_records_are_read_alike_in_columns_and_one_by_one() -> None:
    for seed in range(10_000):
        _attack_all(seed)

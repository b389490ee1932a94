"""A change whose old row has an unknown key is bad: the record's key lacks columns of the table's primary key."""

from __future__ import annotations

import json
from typing import Any  # Any: parsed JSON

import pytest

from lakelog.catalog.columns.ddl import parse_ddl
from lakelog.common.types import RowKind
from lakelog.logstore.codec.foreign import decode_foreign
from lakelog.logstore.codec.foreign_records import beside_key
from lakelog.logstore.codec.foreign_rules import ForeignRules

FIELDS = parse_ddl("day STRING NOT NULL, id INT NOT NULL, n INT")
RULES = ForeignRules(fields=FIELDS, key_fields=("day", "id"))
STAYING = ForeignRules(fields=FIELDS, key_fields=("day", "id"), keys_stay=True)
SINGLE = ForeignRules(fields=FIELDS, key_fields=("id",))
TUE = {"day": "tue", "id": 1, "n": 2}
MON = {"day": "mon", "id": 1, "n": 1}
KEY_ONLY = {"day": None, "id": 1, "n": None}
KEY_AND_STAND_INS = {"day": "", "id": 1, "n": 0}
NARROW, WHOLE = b'{"id":1}', b'{"id":1,"day":"mon"}'
UNKNOWN: Any = None


def change(op: str, before: Any, after: Any) -> bytes:
    return json.dumps({"before": before, "after": after, "source": {}, "op": op}).encode()


UPDATED = [(RowKind.UPDATE_AFTER, "tue")]
MOVED = [(RowKind.DELETE, "mon"), (RowKind.INSERT, "tue")]


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize(
    ("rules", "key", "value", "expected"),
    [
        (RULES, NARROW, change("u", None, TUE), UNKNOWN),
        (RULES, NARROW, change("u", KEY_ONLY, TUE), UNKNOWN),
        (RULES, NARROW, change("u", KEY_AND_STAND_INS, TUE), UNKNOWN),
        (RULES, NARROW, change("u", MON, TUE), MOVED),
        (RULES, NARROW, change("u", {**TUE, "n": 1}, TUE), UPDATED),
        (RULES, WHOLE, change("u", None, TUE), UPDATED),
        (RULES, b'{"schema":{"type":"struct"},"payload":{"day":"mon","id":1}}', change("u", None, TUE), UPDATED),
        (
            RULES,
            b'{"schema":{"type":"struct","fields":[{"field":"day"}]},"payload":{"id":1}}',
            change("u", None, TUE),
            UNKNOWN,
        ),
        (RULES, b'{"id": 1, "note": "\\"day\\":"}', change("u", None, TUE), UNKNOWN),
        (RULES, NARROW, change("d", None, None), UNKNOWN),
        (RULES, NARROW, change("d", KEY_ONLY, None), UNKNOWN),
        (RULES, NARROW, change("d", KEY_AND_STAND_INS, None), UNKNOWN),
        (RULES, NARROW, change("d", MON, None), MOVED[:1]),
        (RULES, WHOLE, change("d", None, None), MOVED[:1]),
        (RULES, NARROW, change("c", None, TUE), [(RowKind.INSERT, "tue")]),
        (STAYING, NARROW, change("u", None, TUE), UPDATED),
        (STAYING, NARROW, change("u", KEY_AND_STAND_INS, TUE), UPDATED),
        (STAYING, NARROW, change("d", None, None), UNKNOWN),
        (SINGLE, NARROW, change("u", None, TUE), UPDATED),
    ],
)
def test_the_old_row_is_known_or_the_record_is_bad(
    rules: ForeignRules, key: bytes, value: bytes, expected: Any, count: int
) -> None:
    decoded = decode_foreign([value] * count, [key] * count, rules)

    if expected is UNKNOWN:
        assert sorted(decoded.bad) == list(range(count))
        assert all("REPLICA IDENTITY FULL" in reason for reason in decoded.bad.values())
    else:
        assert decoded.bad == {}
        changes = list(zip(decoded.kinds.tolist(), decoded.rows["day"].to_pylist(), strict=True))
        assert changes == expected * count


@pytest.mark.parametrize(
    ("key", "lacking"),
    [
        (NARROW, ["day"]),
        (WHOLE, []),
        (b'{"DAY":"mon","ID":1}', []),
        (b'{"schema":{},"payload":{"id":1}}', ["day"]),
        (b"17", []),
        (b"no JSON", []),
    ],
)
def test_a_record_key_shows_which_columns_it_lacks(key: bytes, lacking: list[str]) -> None:
    assert beside_key(key, ("day", "id")) == lacking

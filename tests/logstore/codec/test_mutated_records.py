"""Both decoders over records that were changed at random: no error but ours, and every record is a row or bad."""

from __future__ import annotations

from typing import Any  # Any: rules of any type

import pytest

from lakelog.catalog.columns.ddl import parse_ddl
from lakelog.common.errors import CorruptDataError, UnsupportedError
from lakelog.logstore.codec.debezium import decode_changes
from lakelog.logstore.codec.foreign import REASON_MAX, UNEXPECTED, ForeignRows, decode_foreign
from lakelog.logstore.codec.foreign_rules import ForeignRules
from tests.support.attacks.mutated import DDL, ROW, WITHOUT_MAPS, mutated, templates
from tests.support.examples import rest_in_full
from tests.support.tables.column_types import exact_rows

COUNT = pytest.mark.parametrize("count", [150, pytest.param(1_000, marks=[pytest.mark.full, pytest.mark.timeout(900)])])
TABLES = pytest.mark.parametrize(
    ("ddl", "row"), [(DDL, ROW), (WITHOUT_MAPS, {k: v for k, v in ROW.items() if k != "m"})], ids=["maps", "columns"]
)
ERROR_MAX = 1_000


def decoded_of(values: list[bytes], rules: ForeignRules) -> ForeignRows:
    return decode_foreign(values, [b'{"id":1}'] * len(values), rules)


@COUNT
@TABLES
@pytest.mark.parametrize(
    "options",
    rest_in_full(
        [{"takes_new_columns": True}, {"key_fields": ()}, {"no_removals": "no"}, {"drops_members": True}, {}], 3
    ),
)
def test_a_mutated_foreign_record_is_rows_or_bad(options: dict[str, Any], ddl: str, row: Any, count: int) -> None:
    rules = ForeignRules(fields=parse_ddl(ddl), **{"key_fields": ("id",), **options})
    values = list(mutated(count, row, seed=len(options) + len(ddl)))
    alone = [decoded_of([value], rules) for value in values]

    for start in range(0, count, 20):
        among = decoded_of(values[start : start + 20], rules)

        parts = [set(among.records.tolist()), among.silent, among.bad.keys()]
        assert sorted(number for part in parts for number in part) == list(range(len(values[start : start + 20])))
        singles = alone[start : start + 20]
        assert among.bad == {at: text for at, one in enumerate(singles) for text in one.bad.values()}
        assert exact_rows(among.rows) == [line for one in singles for line in exact_rows(one.rows)]
        assert among.left_out.tolist() == [one for single in singles for one in single.left_out.tolist()]
    reasons = [text for one in alone for text in one.bad.values()]
    assert all(0 < len(text) <= REASON_MAX + 3 and text.isprintable() for text in reasons)
    assert not [text for text in reasons if UNEXPECTED in text]  # each kind of damage has its own reason


@COUNT
@TABLES
def test_a_mutated_record_of_the_log_is_rows_or_a_corrupt_record(ddl: str, row: Any, count: int) -> None:
    fields = parse_ddl(ddl)
    rows_count, errors = 0, []
    for value in mutated(count, row, seed=count + len(ddl)):
        try:
            rows, kinds = decode_changes([value], fields)
        except (CorruptDataError, UnsupportedError) as error:
            errors.append(str(error))
        else:
            assert rows.num_rows == len(kinds)
            rows_count += 1
    assert all(len(error) <= ERROR_MAX and error.isprintable() for error in errors)
    assert min(rows_count, len(errors)) > count // 20


@TABLES
def test_the_records_that_are_mutated_are_good(ddl: str, row: Any) -> None:
    import json  # noqa: PLC0415

    values = [json.dumps(one).encode() for one in templates(row)[:6]]
    decoded = decoded_of(values, ForeignRules(fields=parse_ddl(ddl), key_fields=("id",)))

    assert decoded.bad == {}

"""Whatever a topic holds: nothing crashes, and every record is taken in or bad, never both and never neither."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from lakelog.catalog.columns.ddl import parse_ddl
from lakelog.logstore.codec.foreign import ForeignRows, decode_foreign
from lakelog.logstore.codec.foreign_rules import ForeignRules
from tests.support.attacks.malformed import DDL, any_records, malformed, row

RULES = ForeignRules(fields=parse_ddl(DDL), key_fields=("id",))
MALFORMED = 10_000
BATCH_RECORDS = 20


def decoded_of(values: Sequence[bytes]) -> ForeignRows:
    return decode_foreign(values, [None] * len(values), RULES)


def test_ten_thousand_malformed_records_are_all_bad_and_spoil_no_other() -> None:
    bad = list(malformed(MALFORMED, seed=13))
    values = [value for number, one in enumerate(bad) for value in (one, row(id=number))]

    decoded = decoded_of(values)

    assert decoded.rows["id"].to_pylist() == list(range(MALFORMED))
    assert decoded.records.tolist() == list(range(1, 2 * MALFORMED, 2))
    assert sorted(decoded.bad) == list(range(0, 2 * MALFORMED, 2))
    assert all(0 < len(reason) < 1_000 for reason in decoded.bad.values())


@given(records=st.lists(any_records(), max_size=BATCH_RECORDS))
def test_every_record_is_taken_in_or_bad(records: list[bytes]) -> None:
    mixed = [value for number, record in enumerate(records) for value in (record, row(id=number))]

    decoded = decoded_of(mixed)

    taken = set(decoded.records.tolist())
    parts = [taken, decoded.silent, decoded.bad.keys()]
    assert sorted(number for part in parts for number in part) == list(range(len(mixed)))
    assert taken >= set(range(1, len(mixed), 2))
    assert all(decoded.bad.values())


@given(record=any_records())
def test_a_record_means_the_same_in_company_and_alone(record: bytes) -> None:
    company = [row(id=number) for number in range(200)]

    alone, among = decoded_of([record]), decoded_of([*company, record])

    assert bool(alone.bad) == bool(among.bad)
    assert str(alone.rows.to_pylist()) == str(among.rows.to_pylist()[200:])
    assert alone.kinds.tolist() == among.kinds.tolist()[200:]

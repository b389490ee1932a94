"""A few records are read one by one, many by Arrow's parser: both give the same rows, and the same errors."""

from __future__ import annotations

from typing import Any  # Any: rows of any type

import pytest

from lakelog.catalog.columns.ddl import parse_ddl
from lakelog.common.errors import CorruptDataError, UnsupportedError
from lakelog.logstore.codec import envelope
from lakelog.logstore.codec.debezium import decode_changes
from tests.support.attacks.mutated import DDL, ROW, WITHOUT_MAPS, mutated
from tests.support.tables.column_types import exact_rows

FEW = 32


def decoded(values: list[bytes], ddl: str, *, few_max: int, monkeypatch: pytest.MonkeyPatch) -> object:
    """The rows and kinds, or the error."""
    monkeypatch.setattr(envelope, "_ONE_BY_ONE_MAX", few_max)
    try:
        rows, kinds = decode_changes(values, parse_ddl(ddl))
    except (CorruptDataError, UnsupportedError) as error:
        return type(error), str(error)
    return rows.schema, exact_rows(rows), kinds.to_pylist()


@pytest.mark.parametrize(
    ("ddl", "row"), [(DDL, ROW), (WITHOUT_MAPS, {k: v for k, v in ROW.items() if k != "m"})], ids=["maps", "columns"]
)
def test_few_records_give_what_they_give_among_many(ddl: str, row: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for value in mutated(300, row, seed=7):
        few = decoded([value], ddl, few_max=FEW, monkeypatch=monkeypatch)
        assert few == decoded([value], ddl, few_max=0, monkeypatch=monkeypatch)
        found.add(isinstance(few, tuple) and isinstance(few[0], type))
    assert found == {True, False}


def test_arrow_s_parser_is_asked_from_33_records_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    canonical = envelope._read_canonical

    def noted(values: Any, fields: Any) -> Any:
        asked.append(len(values))
        return canonical(values, fields)

    monkeypatch.setattr(envelope, "_read_canonical", noted)
    monkeypatch.setattr(envelope, "_ONE_BY_ONE_MAX", FEW)
    monkeypatch.setattr(envelope, "takes_python_values_at_once", lambda: True)
    record = b'{"before":null,"after":{"id":1},"op":"c"}'
    for count in (1, FEW, FEW + 1):
        rows, _ = decode_changes([record] * count, parse_ddl("id INT"))
        assert rows.num_rows == count
    monkeypatch.setattr(envelope, "takes_python_values_at_once", lambda: False)  # pandas would be imported
    decode_changes([record], parse_ddl("id INT"))
    assert asked == [FEW + 1, 1]


def test_large_records_are_never_read_by_values_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's values of a JSON text take many times its bytes."""
    monkeypatch.setattr(envelope, "_ONE_BY_ONE_MAX", FEW)
    monkeypatch.setattr(envelope, "takes_python_values_at_once", lambda: True)
    monkeypatch.setattr(envelope, "_read_one_by_one", None)
    record = b'{"before":null,"after":{"s":"%b"},"op":"c"}' % (b"x" * (64 << 10))
    rows, _ = decode_changes([record], parse_ddl("s STRING"))
    assert rows.num_rows == 1

"""Records in the form of each connector of Debezium become the rows that they mean, with schemas and without."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any  # Any: values of any column

import pytest

from lakelog.catalog.columns.ddl import parse_ddl
from lakelog.common.types import RowKind
from lakelog.logstore.codec.foreign import ForeignRows, decode_foreign
from lakelog.logstore.codec.foreign_forms import DecimalForm, ForeignForms
from lakelog.logstore.codec.foreign_rules import ForeignRules
from tests.support.logs.debezium_forms import FORMS, ConnectorForm

RECORDS = 200
# Without a schema a number's unit is that of the column: nanoseconds are what they are only with one.
NEEDS_SCHEMA = {"seven", "seven_time"}


def rules_of(form: ConnectorForm) -> ForeignRules:
    decimals = DecimalForm.STRING if form.name == "vitess" else DecimalForm.PRECISE
    return ForeignRules(fields=parse_ddl(form.ddl), key_fields=(form.key,), forms=ForeignForms(decimals=decimals))


def folded(decoded: ForeignRows, key: str) -> dict[int, dict[str, Any]]:
    table: dict[int, dict[str, Any]] = {}
    for row, kind in zip(decoded.rows.to_pylist(), decoded.kinds, strict=True):
        if RowKind(kind).is_add:
            table[row[key]] = row
        else:
            del table[row[key]]
    return table


@pytest.mark.parametrize("has_schema", [True, False], ids=["schemas", "no schemas"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_the_records_of_a_connector_are_its_rows(form: ConnectorForm, has_schema: bool) -> None:
    if not has_schema:
        form = replace(form, columns=tuple(one for one in form.columns if one.name not in NEEDS_SCHEMA))
    records, table = form.history(RECORDS, seed=13, has_schema=has_schema)
    keys, values = zip(*records, strict=True)

    decoded = decode_foreign(values, keys, rules_of(form))

    assert decoded.bad == {}
    assert folded(decoded, form.key) == table


@pytest.mark.parametrize("form", FORMS[:-1], ids=lambda form: form.name)
def test_a_schema_says_the_types_of_all_columns(form: ConnectorForm) -> None:
    """A table of the key alone is given every column, and each value fits the column that was made for it."""
    records, _ = form.history(60, seed=5, has_schema=True)
    keys, values = zip(*records, strict=True)
    rules = replace(rules_of(form), fields=parse_ddl("id BIGINT NOT NULL"), takes_new_columns=True)

    found = decode_foreign(values, keys, rules).new_columns
    fields = parse_ddl("id BIGINT NOT NULL, " + ", ".join(f"`{name}` {kind}" for name, kind in found.items()))
    decoded = decode_foreign(values, keys, replace(rules, fields=fields))

    assert set(found) == {one.name for one in form.columns}
    assert decoded.bad == {}
    assert decoded.new_columns == {}


@pytest.mark.parametrize("texts", [200, 3, 0], ids=["columns", "one by one", "none"])
def test_a_time_as_text_says_that_a_few_odd_numbers_are_no_wrong_unit(texts: int) -> None:
    """Three numbers near 1970 among thousands of texts ended an ingest, and asked for a unit that they do not have."""
    fields = parse_ddl("id INT, at TIMESTAMP(6), s ROW<at TIMESTAMP(6), l ARRAY<TIMESTAMP_LTZ(6)>>, other TIMESTAMP(6)")
    text, number = "2026-01-01T00:00:00Z", 5
    moments = [*[text] * texts, *[number] * 3]
    images = [{"id": 1, "at": at, "s": {"at": at, "l": [at]}, "other": number} for at in moments]
    values = [json.dumps({"before": None, "after": image, "op": "c"}).encode() for image in images]

    decoded = decode_foreign(values, [None] * len(values), ForeignRules(fields=fields, key_fields=()))

    assert decoded.bad == {}
    with_texts = {("at",), ("s", "at"), ("s", "l", "element")}
    assert decoded.seen.plain == (with_texts if texts else set())
    assert decoded.seen.odd.keys() - decoded.seen.plain == ({("other",)} if texts else {("other",), *with_texts})

"""Random expressions give in `lakelog.sql` what DuckDB gives over the same rows: values, types and errors."""

from __future__ import annotations

import pytest

from tests.support.tables.duckdb_twin import Twin, made_twin
from tests.support.tables.sql_expressions import Expressions

SEEDS_EACH = 20


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Twin:
    return made_twin(tmp_path_factory.mktemp("expressions"))


def check_selects(twin: Twin, number: int) -> None:
    with_rows = 0
    for seed in seeds_of(number):
        text = f"SELECT id, {Expressions(seed).any()} AS x FROM t"
        expected = twin.of_duckdb(text)
        assert twin.of_lakelog(text) == expected, (seed, text)
        with_rows += isinstance(expected, tuple)
    assert with_rows > SEEDS_EACH // 2  # most of them are no errors


def check_deletes(twin: Twin, number: int) -> None:
    for seed in seeds_of(number):
        text = f"DELETE FROM t WHERE {Expressions(seed).of('bool')}"
        expected = twin.changed_in_duckdb(text, "SELECT id FROM t")
        assert twin.changed_in_lakelog(text, "SELECT id FROM t") == expected, (seed, text)


def seeds_of(number: int) -> range:
    return range(number * SEEDS_EACH, (number + 1) * SEEDS_EACH)


@pytest.mark.parametrize("number", range(5))
def test_random_expressions_give_what_they_give_in_duckdb(twin: Twin, number: int) -> None:
    check_selects(twin, number)


@pytest.mark.parametrize("number", range(3))
def test_random_conditions_delete_the_rows_that_they_delete_in_duckdb(twin: Twin, number: int) -> None:
    check_deletes(twin, number)


@pytest.mark.full
@pytest.mark.parametrize("number", range(5, 25))
def test_many_random_expressions_give_what_they_give_in_duckdb(twin: Twin, number: int) -> None:
    check_selects(twin, number)


@pytest.mark.full
@pytest.mark.parametrize("number", range(3, 25))
def test_many_random_conditions_delete_the_rows_that_they_delete_in_duckdb(twin: Twin, number: int) -> None:
    check_deletes(twin, number)

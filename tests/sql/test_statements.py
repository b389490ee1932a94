"""The statements of the case files without Spark: the same texts, the same rows or DuckDB's, worked out by hand.

Those of `cases` beside this file are statements that Spark does not have.

An error has the same sentence where it is lakelog's, or one of ours in place of a condition of Spark.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import lakelog.sql
from lakelog.catalog import Catalog, LakelogError
from lakelog.sql import SqlConnection
from tests.support.tables.case_files import ERROR, Case, read_cases, shown_value

FOLDERS = (Path(__file__).parent.parent / "spark" / "catalog_plugin" / "cases", Path(__file__).parent / "cases")
CATALOG = "lake"
CONDITION = re.compile(r"[A-Z]+(_[A-Z]+)*")  # the name of an error of Spark
# What a sentence for a user does not hold.
INTERNALS = ("traceback", "a fault of lakelog", "__lakelog", "sqlglot")


PATHS = [
    pytest.param(path, id=str(path.relative_to(folder)))
    for folder in FOLDERS
    for path in sorted(folder.rglob("*.test"))
]


@pytest.mark.parametrize("path", PATHS)
def test_statements_give_the_rows_that_were_worked_out_by_hand(path: Path, tmp_path: Path) -> None:
    connection = lakelog.sql.connect(Catalog(tmp_path), name=CATALOG)
    words = {"catalog": CATALOG, "database": path.stem, "db": f"{CATALOG}.{path.stem}"}
    connection.sql(f"CREATE DATABASE {CATALOG}.`{path.stem}`")
    connection.sql(f"USE {CATALOG}.`{path.stem}`")
    failed: list[str] = []
    for each in read_cases(path, words):
        case = each.in_duckdb or each
        wrong = None if case.is_of_spark_alone else difference(connection, case)
        if wrong is not None:
            failed.append(f"{path.name}:{case.line}: {case.about}\n{case.statement}\n{wrong}")
    assert not failed, "\n\n".join([f"{len(failed)} statements of {path.name}", *failed])


def difference(connection: SqlConnection, case: Case) -> str | None:
    """What is wrong with what a statement gives; None if nothing is."""
    try:
        found = connection.sql(case.statement_without_spark)
    except LakelogError as error:
        return wrong_error(case, error)
    columns = [[shown(value, column.type) for value in column.to_pylist()] for column in found.columns]
    return case.difference([*zip(*columns, strict=True)])


def wrong_error(case: Case, error: LakelogError) -> str | None:
    """What is wrong with an error; None if it is expected, and a sentence for a user."""
    text = case.text_without_spark
    is_told = text in str(error) or CONDITION.fullmatch(text) or text == "none"
    if case.wants != ERROR or not is_told:
        return f"expected: {case.wants} {text}\nfound the error: {error!r}"
    bad = [word for word in INTERNALS if word in str(error).lower()]
    return f"the error {error} holds {', '.join(bad)}" if bad else None


def shown(value: object, kind: pa.DataType) -> str:
    """A value of Arrow as the case files write it."""
    return shown_value(as_row(value, kind))


def as_row(value: object, kind: pa.DataType) -> object:
    """A value of Arrow as a row of Spark has it: structs are tuples, maps dicts, times without a zone."""
    match value:
        case None:
            return None
        case dict():
            return tuple(as_row(value[field.name], field.type) for field in kind)
        case list() if pa.types.is_map(kind):
            return {as_row(key, kind.key_type): as_row(one, kind.item_type) for key, one in value}
        case list():
            return [as_row(one, kind.value_type) for one in value]
    return value.replace(tzinfo=None) if pa.types.is_timestamp(kind) else value  # type: ignore[attr-defined]

"""Columns written as DDL."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.catalog import AddColumn, Catalog
from lakelog.catalog.columns.ddl import parse_ddl
from lakelog.cli.main import main
from lakelog.common.errors import InvalidRequestError, LakelogError, UnsupportedError


def types(ddl: str) -> list[str]:
    return [f"{field.name} {field.type}" for field in parse_ddl(ddl)]


def test_names_nullability_and_comments_are_taken() -> None:
    id_, name, odd = parse_ddl(
        "id BIGINT NOT NULL COMMENT 'the ''key''', name: string, `a ``b` INT comment \"x\" NOT NULL"
    )
    assert (id_.name, str(id_.type), id_.description) == ("id", "BIGINT NOT NULL", "the 'key'")
    assert (name.name, str(name.type), name.description) == ("name", "STRING", None)
    assert (odd.name, str(odd.type), odd.description) == ("a `b", "INT NOT NULL", "x")


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("BYTE", "TINYINT"),
        ("short", "SMALLINT"),
        ("INTEGER", "INT"),
        ("Long", "BIGINT"),
        ("REAL", "FLOAT"),
        ("DEC(5, 1)", "DECIMAL(5, 1)"),
        ("numeric", "DECIMAL(10, 0)"),
        ("BINARY", "BYTES"),
        ("BINARY(4)", "BINARY(4)"),
        ("VARBINARY(4)", "VARBINARY(4)"),
        ("CHAR(2)", "CHAR(2)"),
        ("VARCHAR(9)", "VARCHAR(9)"),
        ("DATE", "DATE"),
        ("TIME", "TIME(6)"),
        ("TIME(3)", "TIME(3)"),
        ("TIMESTAMP", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("TIMESTAMP_LTZ", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("TIMESTAMP WITH LOCAL TIME ZONE", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("TIMESTAMP_NTZ", "TIMESTAMP(6)"),
        ("TIMESTAMP(3)", "TIMESTAMP(3)"),
        ("TIMESTAMP WITHOUT TIME ZONE", "TIMESTAMP(6)"),
        ("ARRAY<INT NOT NULL> NOT NULL", "ARRAY<INT NOT NULL> NOT NULL"),
        ("MAP<STRING, ARRAY<BYTES>>", "MAP<STRING NOT NULL, ARRAY<BYTES>>"),
        ("STRUCT<a: INT COMMENT 'x', `b`: STRING NOT NULL>", "ROW<a INT, b STRING NOT NULL>"),
        ("ROW<a INT, b MULTISET<STRING>>", "ROW<a INT, b MULTISET<STRING>>"),
    ],
)
def test_types_of_spark_and_paimon_are_taken(written: str, kind: str) -> None:
    assert types(f"c {written}, d INT") == [f"c {kind}", "d INT"]


def test_comments_of_members_are_taken() -> None:
    (column,) = parse_ddl("s STRUCT<a: INT COMMENT 'x'>")
    assert column.type.fields[0].description == "x"


@pytest.mark.parametrize(
    ("ddl", "error", "message"),
    [
        ("", InvalidRequestError, "the name of a column expected, found the end; expected a form such as"),
        ("id", InvalidRequestError, "the type of column 'id' expected, found the end"),
        ("id BIGINT,", InvalidRequestError, "the name of a column expected, found the end"),
        ("id BIGINT NOT", InvalidRequestError, "NOT NULL, NULL or COMMENT expected for column 'id', found the end"),
        ("id BIGINT; x", InvalidRequestError, "',' or the end expected, found '; x'"),
        ("id BIGINT PRIMARY KEY", InvalidRequestError, "column 'id' has PRIMARY: name the columns .* as primary_keys"),
        ("id BIGINT DEFAULT 'x'", InvalidRequestError, "column 'id' has DEFAULT 'x', which is no value of type BIGINT"),
        ("id BIGINT DEFAULT now()", UnsupportedError, "column 'id' has DEFAULT .*: a default is a constant"),
        ("id BIGINT COMMENT x", InvalidRequestError, "COMMENT of column 'id' needs a string in quotes, found 'x'"),
        ("id BIGITN", UnsupportedError, "schema: column 'id': type 'BIGITN' is not supported; known types"),
        ("s STRUCT<a: INTERVAL>", UnsupportedError, r"schema: column 's\.a': type 'INTERVAL' is not supported"),
        ("d DECIMAL(50, 2)", InvalidRequestError, "schema: column 'd': .*DECIMAL has a precision from 1 to 38"),
        ("c VARCHAR", InvalidRequestError, r"'c' is VARCHAR without a length; write VARCHAR\(20\), or STRING"),
        ("c VARCHAR(x)", InvalidRequestError, "a number expected in the type of column 'c'"),
        ("a ARRAY<INT", InvalidRequestError, "'>' expected in the type of column 'a', found the end"),
        ("t TIMESTAMP(3) WITH TIME ZONE", InvalidRequestError, "TIMESTAMP WITH, expected TIMESTAMP WITH LOCAL TIME"),
        ("c " + "ARRAY<" * 200 + "INT" + ">" * 200, InvalidRequestError, "nested deeper than 64"),
    ],
)
def test_what_is_not_understood_is_quoted(ddl: str, error: type[LakelogError], message: str) -> None:
    with pytest.raises(error, match=message):
        parse_ddl(ddl)


@pytest.mark.parametrize(
    "written",
    ["TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP(3)", "BINARY", "TIME(3)", "ARRAY<TIMESTAMP>", "MAP<STRING, INT>"],
)
def test_a_type_means_the_same_wherever_it_is_written(tmp_path: Path, written: str) -> None:
    """In DDL of a table, in a change of its columns, and on the command line."""
    (meant,) = parse_ddl(f"c {written}")
    catalog = Catalog(tmp_path)
    altered = catalog.create_table("db.a", schema="id INT", primary_keys=["id"]).alter(AddColumn("c", written))
    assert altered.schema.field("c").type == meant.type
    for words in (
        ["create", "db.b", "--column", f"c {written}", "--column", "id INT", "--primary-keys", "id"],
        ["create", "db.d", "--column", "id INT"],
        ["alter", "db.d", "--add", f"c {written}"],
    ):
        with pytest.raises(SystemExit) as ended:
            main(["table", *words, "--warehouse", str(tmp_path)])
        assert ended.value.code == 0
    assert {catalog.load_table(f"db.{name}").schema.field("c").type for name in ("b", "d")} == {meant.type}


@pytest.mark.parametrize("kind", ["INT, d INT", "INT COMMENT 'x'", "INT)"])
def test_a_type_of_a_change_is_a_type_alone(tmp_path: Path, kind: str) -> None:
    table = Catalog(tmp_path).create_table("db.a", schema="id INT", primary_keys=["id"])
    with pytest.raises(InvalidRequestError):
        table.alter(AddColumn("c", kind))

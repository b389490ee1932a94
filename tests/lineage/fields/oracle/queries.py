"""The queries of the oracle, each as Spark and DuckDB run it, and the columns of tables that it names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import sqlglot
from sqlglot import exp

from tests.support.lineage.field_cases import TRUTH

Schema = Mapping[str, Mapping[str, str]]  # tables, their columns in order, and the types of these in Spark
SourceColumn = tuple[str, str]  # a table and its column


@dataclass(frozen=True)
class OracleQuery:
    """A query in the SQL of Spark; `suite` is the database that has its tables."""

    suite: str
    name: str
    text: str
    schema: Schema

    @cached_property
    def tree(self) -> exp.Expr:
        """The query without its outermost LIMIT: rows that are equal in the order would be cut off at random.

        ORDER BY stays, so the lineage is that of the text. LIMITs within have an order without equal rows.
        """
        parsed = sqlglot.parse_one(self.text, read="spark")
        if isinstance(parsed, exp.Query):
            parsed.set("limit", None)
        return parsed

    @cached_property
    def duckdb_text(self) -> str:
        """The query in the SQL of DuckDB."""
        return self.tree.sql(dialect="duckdb")

    @cached_property
    def tables(self) -> list[str]:
        """The tables that it names."""
        named = {table.name.lower() for table in self.tree.find_all(exp.Table)}
        return [name for name in self.schema if name in named]

    @cached_property
    def columns(self) -> list[SourceColumn]:
        """The columns of its tables that it names; what it does not name cannot change its rows.

        A `*` counts only over sub-queries, which name their columns, and in EXISTS.
        """
        named = {name.name.lower() for name in self.tree.find_all(exp.Identifier)}
        return [(table, column) for table in self.tables for column in self.schema[table] if column in named]


def suite_of_files(suite: str) -> list[OracleQuery]:
    """The queries of a folder of `truth`: `tpch` or `tpcds`."""
    schema: Schema = json.loads((TRUTH / f"{suite}_schema.json").read_text("utf-8"))
    paths = sorted((TRUTH / suite).glob("*.sql"))
    return [OracleQuery(suite, path.stem, path.read_text("utf-8"), schema) for path in paths]

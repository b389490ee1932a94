"""The lineage that is derived for the queries of a suite, over tables of Spark without rows."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from lakelog.lineage.columns.field_operations import FieldLineage
from lakelog.spark.session import catalog_of
from tests.lineage.fields.oracle.queries import OracleQuery, Schema
from tests.support.lineage.statement_fields import fields_of_statement


class SuiteSession:
    """A session with the tables of a suite in a database of its own."""

    def __init__(self, spark: SparkSession, suite: str, schema: Schema, folder: Path) -> None:
        self._session = spark.newSession()
        self._database = f"oracle_{suite}"
        self._session.sql(f"CREATE DATABASE {self._database} LOCATION '{folder / suite}'")
        self._session.sql(f"USE {self._database}")
        for name, columns in schema.items():
            declared = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
            self._session.sql(f"CREATE TABLE {name} ({declared}) USING parquet")

    def lineage(self, query: OracleQuery) -> FieldLineage:
        """The lineage of a query; no operator of it may be opaque."""
        found = fields_of_statement(self._session, query.text, catalog_of)
        assert found.opaque_operators == frozenset(), query.name
        return found.lineage

    def close(self) -> None:
        """Drop the tables."""
        self._session.sql("USE default")
        self._session.sql(f"DROP DATABASE {self._database} CASCADE")

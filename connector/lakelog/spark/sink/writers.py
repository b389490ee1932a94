"""Which writer a batch write by Spark's tasks has: of a table without a log, or a statement of one with a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceArrowWriter

from lakelog.catalog import Table

if TYPE_CHECKING:
    from lakelog.filestore.write import Replaced
    from lakelog.spark.logging_level import LoggingLevel


def batch_writer(
    table: Table,
    schema: spark.StructType,
    *,
    is_overwrite: bool,
    replaces: Replaced | None = None,
    merges_schema: bool = False,
    change_tracking: bool | None = None,
    level: LoggingLevel | None = None,
) -> DataSourceArrowWriter:
    """The writer of rows of `schema`, planned on the newest snapshot. Raises InvalidRequestError, UnavailableError."""
    from lakelog.catalog.logs.statements import check_takes_statements, check_tracking_choice
    from lakelog.spark.sink.files_writer import FilesPlan, FilesWriter

    check_tracking_choice(table, change_tracking)
    if table.log is None:
        plan = FilesPlan.of(table, schema, is_overwrite=is_overwrite, replaces=replaces, merges_schema=merges_schema)
        return FilesWriter(plan, level)
    from lakelog.protocol.access import await_topic
    from lakelog.spark.sink.statement_writer import StatementPlan, StatementWriter

    check_takes_statements(table)
    await_topic(table.log)
    logged = StatementPlan.of(
        table,
        schema,
        is_overwrite=is_overwrite,
        replaces=replaces,
        merges_schema=merges_schema,
        change_tracking=change_tracking,
    )
    return StatementWriter(logged, level)

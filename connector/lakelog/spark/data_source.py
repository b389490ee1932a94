"""The data source `lakelog`: `spark.read`, `spark.readStream`, `df.write` and `df.writeStream` by `format("lakelog")`.

Filters are never pushed down: Spark 4.3 keeps one read function per relation, filters included, and gives wrong rows
when two queries filter it differently. Options choose columns and rows.

Spark imports this module in a new process for each step of a read or write: to list the formats, and for the schema,
the partitions and the rows. Each step imports what it needs when it is called.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import types as spark
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from lakelog.common.errors import InvalidRequestError, NotFoundError, UnavailableError
from lakelog.spark.failures import sentence_first
from lakelog.spark.session import FORMAT, prepare_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakelog.catalog import Table
    from lakelog.spark.logging_level import LoggingLevel
    from lakelog.spark.options import ReadOptions
    from lakelog.warehouse.system_names import ReadName

CHECKPOINT_OPTION = "checkpointLocation"


class LakelogDataSource(DataSource):
    """One use of the format, with its options."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    @sentence_first()
    def schema(self) -> spark.StructType:
        """The columns that the options choose. Errors in the options are raised here, at the user's load()."""
        if self._names_system_table():
            from lakelog.spark.system_read import system_schema

            return system_schema(self.options)
        from lakelog.spark.source.reading.read_schema import read_schema

        try:
            table, options = self._read_of_state()
        except NotFoundError:  # the log of a stream may begin before the first snapshot
            table, options = self._read()
        return read_schema(table.schema, options, table_name=table.name)

    @sentence_first()
    def reader(self, schema: spark.StructType) -> DataSourceReader:
        """Reads a snapshot, or a part of the log."""
        if self._names_system_table():
            from lakelog.spark.system_read import SystemReader

            return SystemReader(self.options, schema)
        from lakelog.spark.source.batch.batch_readers import batch_reader

        return batch_reader(*self._read_of_state(), schema)

    @sentence_first()
    def streamReader(self, schema: spark.StructType) -> DataSourceStreamReader:
        """Reads snapshot and log, or follows snapshots."""
        from lakelog.spark.shown_range import CHANGES_FROM, RANGE_OPTIONS
        from lakelog.spark.source.batch.batch_readers import log_of
        from lakelog.spark.source.reading.input_partitions import TableRows
        from lakelog.spark.source.streams.source import LakelogStreamReader
        from lakelog.spark.tables import find_older_topic

        name, given = self._audited() if self._names_system_table() else (None, self.options)
        table, options = self._read(given)
        if options.between is not None:
            keys = ", ".join(option.key for option in RANGE_OPTIONS if option.key in options.given)
            raise InvalidRequestError(f"{keys}: a stream has no end: read changes between two states with spark.read")
        self._check_columns_of_stream(schema, table, options)
        if CHANGES_FROM in self.options:
            from lakelog.spark.source.streams.changelog_stream import changelog_stream
            from lakelog.streams.reading.admission import Limits

            limits = Limits(rows=options.max_rows, size_bytes=options.max_bytes)
            return changelog_stream(table.store, options.where, schema, start=self.options[CHANGES_FROM], limits=limits)
        target, check_log = log_of(table)
        rows: TableRows | AuditRows
        if name is None:
            rows = TableRows.of(table.store, target, schema, options)
        else:
            from lakelog.spark.source.streams.audit_stream import AuditRows

            rows = AuditRows.of(name, table.store, target, schema, options)
        find_topic = partial(find_older_topic, table)
        alignment, group = options.log.alignment, None
        if alignment.group is not None:
            from lakelog.spark.source.phases.group_opening import open_group

            group = open_group(alignment.group, alignment, table, given)
        return LakelogStreamReader(
            table.store, target, rows, options, check_log=check_log, find_topic=find_topic, group=group
        )

    @sentence_first()
    def writer(self, schema: spark.StructType, overwrite: bool) -> DataSourceWriter:
        """Appends rows, or replaces all rows or partitions; on a table with a log as a batch statement."""
        from lakelog.spark.options import chosen_tracking, merges_schema, open_from_options
        from lakelog.spark.sink.declaring import with_declared
        from lakelog.spark.sink.overwriting import parse_overwrite
        from lakelog.spark.sink.writers import batch_writer

        level = self._show_log()
        table = with_declared(open_from_options(self.options), self.options)
        replaces = parse_overwrite(self.options, table, is_overwrite=overwrite)
        return batch_writer(
            table,
            schema,
            is_overwrite=overwrite,
            replaces=replaces,
            merges_schema=merges_schema(self.options),
            change_tracking=chosen_tracking(self.options),
            level=level,
        )

    @sentence_first()
    def streamWriter(self, schema: spark.StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Appends micro-batches, or replaces all rows by each (complete mode)."""
        from lakelog.filestore.write import Overwrite
        from lakelog.spark.options import check_stream_write_options, merges_schema, open_from_options
        from lakelog.spark.sink.declaring import StreamDeclaration
        from lakelog.spark.sink.files_writer import AwayStreamWriter, FilesPlan, FilesStreamWriter

        self._show_log()
        commit_user, declared = check_stream_write_options(self.options), StreamDeclaration.of(self.options)
        replaces = Overwrite.EVERYTHING if overwrite else None
        try:
            table = open_from_options(self.options)
            merges = merges_schema(self.options)
            plan = FilesPlan.of(table, schema, is_overwrite=overwrite, replaces=replaces, merges_schema=merges)
        except UnavailableError as error:
            return AwayStreamWriter(str(error))
        return FilesStreamWriter(plan, commit_user, self.options.get(CHECKPOINT_OPTION), declared)

    def _names_system_table(self) -> bool:
        from lakelog.warehouse.system_names import names_system_table

        options = {key.lower(): value for key, value in self.options.items()}
        return names_system_table(options.get("table") or options.get("path", ""), in_warehouse="warehouse" in options)

    def _audited(self) -> tuple[ReadName, Mapping[str, str]]:
        """The system table that a stream reads, and the options of the stream of its table."""
        from lakelog.spark.source.streams.audit_stream import audited

        return audited(self.options)

    def _read(self, given: Mapping[str, str] | None = None) -> tuple[Table, ReadOptions]:
        from lakelog.spark.options import open_for_read, parse_read_options

        self._show_log()
        options = self.options if given is None else given
        table = open_for_read(options)
        return table, parse_read_options(options, table)

    def _read_of_state(self) -> tuple[Table, ReadOptions]:
        """A batch read: in the columns of the state that the options name."""
        from lakelog.spark.options import open_for_read, read_of

        self._show_log()
        return read_of(self.options, open_for_read(self.options))

    def _check_columns_of_stream(self, schema: spark.StructType, table: Table, options: ReadOptions) -> None:
        """Raise InvalidRequestError for a stream that starts at a state with other than the newest columns."""
        from lakelog.spark.source.reading.read_schema import read_schema
        from lakelog.streams.options.shown_state import NAMES_OF_STATES, NEWEST

        if options.state == NEWEST:
            return
        if self._names_system_table():
            newest = {key: value for key, value in self.options.items() if key.lower() not in NAMES_OF_STATES}
            own = type(self)(newest).schema()
        else:
            own = read_schema(table.schema, options, table_name=table.name)
        if own.simpleString() != schema.simpleString() and self.schema().simpleString() == schema.simpleString():
            path = self.options.get("path") or table.path
            raise InvalidRequestError(
                f"a stream of {table.name} has its newest columns, and Spark took those of the state where it starts, "
                f'which are others: give the stream .schema(spark.read.format("lakelog").load({path!r}).schema)'
            )

    def _show_log(self) -> LoggingLevel | None:
        """Show lakelog's log in this Spark process, as the options say; returns the level that they name."""
        from lakelog.spark.logging_level import logging_level_of, show_log

        level = logging_level_of(self.options)
        show_log(level)
        return level


def register(spark: SparkSession) -> None:
    """Make the format known to a session.

    Spark finds the format by itself if lakelog is installed for its Python. But it searches once per session, in a
    Python process; when that fails, for example for lack of memory, the session has no Python formats until its end. A
    session in which this was called needs no search. Nothing is done if the active session knows the format.
    """
    prepare_session(spark)
    try:
        spark.dataSource.register(LakelogDataSource)
    except AnalysisException as error:  # the active session has found it by itself
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise

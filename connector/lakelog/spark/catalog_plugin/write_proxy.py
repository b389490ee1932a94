"""Writes of a statement: planned and committed in this process, written by Python workers.

Spark's own write of a Python data source starts a Python process for the plan and another one for the commit, whose
errors come back as tracebacks.

Source: Spark, `org.apache.spark.sql.connector.write`.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any  # Any: py4j gives Java objects without types

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceArrowWriter

from lakelog.common.errors import ConflictError, InvalidRequestError, UnsupportedError
from lakelog.filestore.write import Overwrite, PartitionFilter
from lakelog.lineage.columns.field_store import with_fields
from lakelog.lineage.records.sources import with_lineage
from lakelog.spark.capture.capture import is_captured, lineage_of_plan
from lakelog.spark.capture.field_capture import fields_or_unknown
from lakelog.spark.catalog_plugin.created_tables import PARTITION, PRIMARY_KEY
from lakelog.spark.catalog_plugin.java.java_predicates import exact_filters, joined_filters
from lakelog.spark.catalog_plugin.java.jvm import Jvm
from lakelog.spark.catalog_plugin.java.planned_scans import PYTHON_CLASSES, python_source, python_table
from lakelog.spark.catalog_plugin.java.proxy import Proxy, WithoutMetrics
from lakelog.spark.options import WRITE_OPTIONS, chosen_tracking, declared_lineage, known_options, merges_schema
from lakelog.spark.session import java_strings
from lakelog.spark.sink.declaring import with_declared
from lakelog.spark.sink.files_writer import check_has_no_log
from lakelog.spark.sink.writers import batch_writer
from lakelog.spark.tables import resolve_table

if TYPE_CHECKING:
    from lakelog.catalog import Table
    from lakelog.filestore.write import Replaced
    from lakelog.spark.catalog_plugin.java.jvm import Jvm
    from lakelog.spark.catalog_plugin.loaded_table import LoadedTable

_MESSAGE = spark.StructType([spark.StructField("message", spark.BinaryType())])


class TableWriteBuilder(Proxy):
    """Collects what a write replaces."""

    interfaces = ("write.SupportsOverwriteV2", "write.SupportsDynamicOverwrite")

    def __init__(self, jvm: Jvm, loaded: LoadedTable, info: Any) -> None:  # a Java LogicalWriteInfo
        super().__init__(jvm, f"write builder of {loaded.identity}")
        self._loaded = loaded
        self._info = info
        self._replaces: Replaced | None = None

    def truncate(self) -> Proxy:
        """Replace all rows."""
        self._replaces = Overwrite.EVERYTHING
        return self

    def canOverwrite(self, predicates: Any) -> bool:  # Java Predicate[]s
        """Whether the predicates are ones that lakelog evaluates exactly; on which columns is checked later."""
        return exact_filters(self.jvm, predicates, self._loaded.table.schema.fields) is not None

    def overwrite(self, predicates: Any) -> Proxy:  # Java Predicate[]s
        """Replace the partitions that meet the predicates."""
        schema = self._loaded.table.schema
        found = exact_filters(self.jvm, predicates, schema.fields)
        if found is None:
            raise UnsupportedError("the condition of the overwrite holds something that lakelog does not know")
        where = joined_filters(found)
        self._replaces = Overwrite.EVERYTHING if where is None else PartitionFilter(schema, where)
        return self

    def overwriteDynamicPartitions(self) -> Proxy:
        """Replace the partitions of the new rows."""
        self._replaces = Overwrite.WRITTEN_PARTITIONS
        return self

    def build(self) -> Proxy:
        """The write."""
        kind = GatheredTableWrite if self._loaded.table.schema.has_dynamic_buckets else TableWrite
        return kind(self.jvm, self._loaded, self._info, self._replaces)


class TableWrite(WithoutMetrics):
    """A write of rows, in a batch or as a stream."""

    interfaces = ("write.Write",)

    def __init__(self, jvm: Jvm, loaded: LoadedTable, info: Any, replaces: Replaced | None) -> None:
        super().__init__(jvm, f"lakelog write of {loaded.table.name}")
        self._loaded = loaded
        self._info = info
        self._replaces = replaces

    def description(self) -> str:
        """The text of the write in EXPLAIN."""
        return self._identity

    def toBatch(self) -> Proxy:
        """The write of a batch."""
        return TableBatchWrite(self.jvm, self._loaded, self._info, self._replaces)

    def toStreaming(self) -> Any:  # a Java StreamingWrite
        """The write of a stream, as by `writeStream.format("lakelog")`."""
        jvm, info = self.jvm, self._info
        check_has_no_log(self._loaded.table)
        options = {**self._loaded.source_options(), **java_strings(info.options().asCaseSensitiveMap())}
        given = jvm.connector("write.LogicalWriteInfoImpl")(
            info.queryId(), info.schema(), jvm.options(options), info.rowIdSchema(), info.metadataSchema()
        )
        schema = jvm.python_schema(info.schema())
        builder = python_table(jvm, python_source(jvm), schema).newWriteBuilder(given)
        return (builder if self._replaces is None else builder.truncate()).build().toStreaming()


class GatheredTableWrite(TableWrite):
    """A write whose rows come to one task: that of a table in which a row's bucket depends on the rows before it."""

    interfaces = ("write.RequiresDistributionAndOrdering",)

    def requiredDistribution(self) -> Any:  # a Java Distribution
        """The rows of equal keys together, which is any task: Spark takes a number of tasks with no other form."""
        schema = self._loaded.table.schema
        references = self.jvm.references(schema.primary_keys or schema.field_names[:1])
        columns = self.jvm.array(self.jvm.connector("expressions.Expression"), references)
        return self.jvm.connector("distributions.Distributions").clustered(columns)

    def distributionStrictlyRequired(self) -> bool:
        """Whether Spark must send the rows so."""
        return True

    def requiredNumPartitions(self) -> int:
        """One task."""
        return 1

    def advisoryPartitionSizeInBytes(self) -> int:
        """Nothing: the number of tasks is given."""
        return 0

    def requiredOrdering(self) -> Any:  # a Java SortOrder[]
        """None."""
        return self.jvm.array(self.jvm.connector("expressions.SortOrder"), ())


class TableBatchWrite(Proxy):
    """The tasks of a write, and its commit."""

    interfaces = ("write.BatchWrite",)

    def __init__(self, jvm: Jvm, loaded: LoadedTable, info: Any, replaces: Replaced | None) -> None:
        super().__init__(jvm, f"lakelog batch write of {loaded.table.name}")
        options = _options_of_write(loaded.table, java_strings(info.options().asCaseSensitiveMap()))
        self._schema = jvm.python_schema(info.schema())
        table = recorded_statement(jvm, resolve_table(loaded.table), options)
        self._writer = batch_writer(
            table,
            self._schema,
            is_overwrite=replaces is not None,
            replaces=replaces,
            merges_schema=merges_schema(options),
            change_tracking=chosen_tracking(options),
        )
        if replaces is not None:  # behind the plan: what it was made on is not older
            _check_unchanged(loaded)

    def createBatchWriterFactory(self, info: Any) -> Any:  # Java: PhysicalWriteInfo; DataWriterFactory
        """What the tasks run."""
        factory = self.jvm.java_class(f"{PYTHON_CLASSES}.PythonBatchWriterFactory")
        none = self.jvm.none()
        source = python_source(self.jvm).source()
        return factory(source, _pickled(self._writer), self.jvm.schema(self._schema), none, none)

    def useCommitCoordinator(self) -> bool:
        """Whether Spark asks the driver before a task commits: files of another attempt are not taken anyway."""
        return True

    def onDataWriterCommit(self, message: Any) -> None:
        """Nothing: all tasks are committed together."""

    def commit(self, messages: Any, *summary: Any) -> None:  # Java WriterCommitMessages
        """One snapshot of all rows."""
        self._writer.commit([None if one is None else pickle.loads(one.pickledMessage()) for one in messages])

    def abort(self, messages: Any) -> None:
        """Nothing: files of a failed write are orphan files."""


def _check_unchanged(loaded: LoadedTable) -> None:
    """Raise ConflictError if the table has a newer commit than the one that the statement reads.

    An overwrite whose rows come from the table itself would drop that commit.
    """
    newest = loaded.table.store.snapshot()
    if newest != loaded.snapshot:
        found, seen = (0 if one is None else one.id for one in (newest, loaded.snapshot))
        raise ConflictError(
            f"snapshot {found} of table {loaded.table.name} appeared behind the one that the statement sees, {seen}; "
            "nothing was written: write again"
        )


def _options_of_write(table: Table, given: Mapping[str, str]) -> dict[str, str]:
    """The options without those that the table has anyway. Raises OptionError, and InvalidRequestError for a key.

    `df.write.option(...).saveAsTable` gives its options to the write alone, not to the table that it makes.
    """
    schema = table.schema
    has = {**schema.options, PRIMARY_KEY: ",".join(schema.primary_keys), PARTITION: ",".join(schema.partition_keys)}
    options = {key: value for key, value in given.items() if has.get(key) != value}
    for key in (PRIMARY_KEY, PARTITION):
        if key in options:
            raise InvalidRequestError(
                f"the option {key}={options[key]} of a write does not reach the table, which has "
                f"{has[key] or 'none'}: make the table before, with CREATE TABLE or "
                f"df.writeTo(...).tableProperty({key!r}, ...).create()"
            )
    known_options(options, WRITE_OPTIONS)
    return options


def _pickled(writer: DataSourceArrowWriter) -> bytes:
    """The function of a task, as Spark's workers take it: rows in, the pickled answer of the writer out."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        message = pickle.dumps(writer.write(batches))
        yield pa.RecordBatch.from_arrays([pa.array([message], pa.binary())], names=_MESSAGE.names)

    write.__module__ = "pyspark.sql.worker.write_into_data_source"  # the workers call functions of this module so
    return bytes(cloudpickle.dumps((write, _MESSAGE)))  # type: ignore[no-untyped-call]


_EXECUTION_ID = "spark.sql.execution.id"


def recorded_statement(jvm: Jvm, table: Table, options: Mapping[str, str]) -> Table:
    """The table, by a handle whose commit records what the running statement reads, or what its options declare.

    Raises OptionError.
    """
    job, names = declared_lineage(options)
    if not is_captured(table.store):
        return table
    plan = _running_plan(jvm) if names is None else None
    if plan is None:
        return with_declared(table, options)
    found = lineage_of_plan(plan, jvm.session._jvm, job=job)
    return with_lineage(table, with_fields(found, table.store, fields_or_unknown(plan, jvm.session._jvm)))


def _running_plan(jvm: Jvm) -> Any:  # a Java LogicalPlan
    """The analyzed plan of the statement that this thread runs; None if Spark does not know it."""
    found = jvm.session.sparkContext._jsc.sc().getLocalProperty(_EXECUTION_ID)
    if found is None:
        return None
    execution = jvm.java_class("org.apache.spark.sql.execution.SQLExecution").getQueryExecution(int(found))
    return None if execution is None else execution.analyzed()

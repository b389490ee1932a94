"""The changes of a table for Spark's CHANGES: `SELECT * FROM lake.db.t CHANGES FROM VERSION 1 TO VERSION 3`.

Source: Spark, `org.apache.spark.sql.connector.catalog`: Changelog, ChangelogContext.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any  # Any: py4j gives Java objects without types

from pyspark.sql import types as spark

from lakelog.catalog.tables.commit_range import CommitRange
from lakelog.common.errors import UnsupportedError
from lakelog.common.types import ROW_KIND_COLUMN
from lakelog.filestore.refs import RangeEnd, RangeName
from lakelog.spark.catalog_plugin.java.planned_scans import python_scan
from lakelog.spark.catalog_plugin.java.proxy import Proxy
from lakelog.spark.catalog_plugin.java.scan_proxy import ScanProxy, pruned
from lakelog.spark.source.batch.changelog_reader import CHANGE_FIELDS, ChangelogReader
from lakelog.spark.source.reading.input_partitions import TableRows
from lakelog.spark.types import spark_arrow_schema, to_spark_schema

if TYPE_CHECKING:
    from lakelog.spark.catalog_plugin.java.jvm import Jvm
    from lakelog.spark.catalog_plugin.loaded_table import LoadedTable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NET = "NET_CHANGES"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedChanges:
    """The states between which changes are asked for; with `is_net` only what remains of them."""

    after: RangeEnd
    up_to: RangeEnd | None
    is_net: bool


class AttachedChangelog(Proxy):
    """The changes of a table in a range. They come finished, so that Spark has nothing to add or to leave out."""

    interfaces = ("catalog.Changelog",)

    def __init__(self, jvm: Jvm, name: str, loaded: LoadedTable, context: Any) -> None:  # a Java ChangelogContext
        after, up_to = _ends(loaded, context.range())
        mode = str(context.deduplicationMode().toString())
        super().__init__(jvm, f"lakelog changes of {name}, {loaded.identity}: {after} {up_to} {mode}")
        self._name = name
        self._loaded = loaded
        self._asked = AskedChanges(after=after, up_to=up_to, is_net=mode == _NET)
        self._schema = spark.StructType([*to_spark_schema(loaded.table.schema.fields).fields, *CHANGE_FIELDS])

    def name(self) -> str:
        """The name of the table in the statement."""
        return self._name

    def columns(self) -> Any:  # a Java Column[]
        """The columns of the table, then those of the commit."""
        return self.jvm.columns(self._schema)

    def containsCarryoverRows(self) -> bool:
        """Whether rows that did not change are among the changes."""
        return False

    def containsIntermediateChanges(self) -> bool:
        """Whether a row changes twice in what is asked for."""
        return False

    def representsUpdateAsDeleteAndInsert(self) -> bool:
        """Whether an update is a delete and an insert."""
        return False

    def rowId(self) -> Any:  # a Java NamedReference[]
        """The primary key."""
        expressions = self.jvm.connector("expressions.Expressions")
        keys = [expressions.column(key) for key in self._loaded.table.schema.primary_keys]
        return self.jvm.array(self.jvm.connector("expressions.NamedReference"), keys)

    def rowVersion(self) -> Any:  # a Java NamedReference
        """The commit."""
        return self.jvm.connector("expressions.Expressions").column(CHANGE_FIELDS[1].name)

    def newScanBuilder(self, options: Any) -> Proxy:  # a Java CaseInsensitiveStringMap; known at load
        """A scan for one place of a plan."""
        return ChangesScanBuilder(self.jvm, self._loaded, self._schema, self._asked)


class ChangesScanBuilder(Proxy):
    """Collects the columns that are read."""

    interfaces = ("read.SupportsPushDownRequiredColumns",)

    def __init__(self, jvm: Jvm, loaded: LoadedTable, schema: spark.StructType, asked: AskedChanges) -> None:
        super().__init__(jvm, f"scan builder of the changes of {loaded.identity}: {asked} {', '.join(schema.names)}")
        self._loaded = loaded
        self._schema = schema
        self._asked = asked

    def pruneColumns(self, required: Any) -> None:  # a Java StructType
        """Read only these columns."""
        self._schema = pruned(self._schema, required, CHANGE_FIELDS[1])

    def build(self) -> Any:  # a Java Scan
        """The scan."""
        table = self._loaded.table
        fields = table.schema.fields  # all of them: an update of a column that is not read is a change, too
        kinds = spark.StructField(ROW_KIND_COLUMN, spark.StringType(), False)
        rows = TableRows(
            table=table.store,
            target=None,
            fields=fields,
            where=self._loaded.options.where,
            has_row_kind=True,
            schema=spark_arrow_schema(spark.StructType([*to_spark_schema(fields).fields, kinds])),
        )
        asked = self._asked
        reader = ChangelogReader(
            rows=rows, schema=self._schema, after=asked.after, up_to=asked.up_to, is_net=asked.is_net
        )
        return ChangesScan(self.jvm, self.toString(), python_scan(self.jvm, reader, self._schema), self._schema)


class ChangesScan(ScanProxy):
    """A read of changes, in a batch."""

    interfaces = ("read.Scan",)

    def __init__(self, jvm: Jvm, text: str, scan: Any, schema: spark.StructType) -> None:  # a Java Scan
        super().__init__(jvm, f"scan by {text}", schema)
        self._scan = scan

    def toBatch(self) -> Any:  # a Java Batch
        """The tasks."""
        return self._scan.toBatch()

    def toMicroBatchStream(self, checkpoint: str) -> Any:
        """Refused: streams have the changes with another column."""
        raise UnsupportedError(
            "readStream.changes: a stream of changes is spark.readStream.option('row-kind', 'true').table(...), with "
            "the column _row_kind; `metadata-columns` adds the snapshot of each"
        )


def _ends(loaded: LoadedTable, asked: Any) -> tuple[RangeEnd, RangeEnd | None]:  # a Java ChangelogRange
    """The states between which the changes are: the first one is not among them."""
    first: RangeName
    last: RangeName | None
    match asked.getClass().getSimpleName():
        case "VersionRange":
            first, ending = str(asked.startingVersion()), asked.endingVersion()
            last = str(ending.get()) if ending.isPresent() else None
        case "TimestampRange":
            first, ending = _EPOCH + timedelta(microseconds=int(asked.startingTimestamp())), asked.endingTimestamp()
            last = _EPOCH + timedelta(microseconds=int(ending.get())) if ending.isPresent() else None
        case _:
            return RangeEnd(number=0), None
    asked_range = CommitRange(
        first=first,
        last=last,
        includes_first=bool(asked.startingBoundInclusive()),
        includes_last=bool(asked.endingBoundInclusive()),
    )
    return asked_range.ends(loaded.table.store)

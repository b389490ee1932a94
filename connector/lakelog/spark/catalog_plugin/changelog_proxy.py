"""The changes of a table for Spark's CHANGES: `SELECT * FROM lake.db.t CHANGES FROM VERSION 1 TO VERSION 3`.

Source: Spark, `org.apache.spark.sql.connector.catalog`: Changelog, ChangelogContext.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import RLock
from typing import TYPE_CHECKING, Any  # Any: py4j gives Java objects without types

from pyspark.sql import types as spark

from lakelog.catalog.tables.commit_range import CommitRange
from lakelog.common.errors import UnsupportedError
from lakelog.filestore.refs import RangeEnd, RangeName
from lakelog.spark.catalog_plugin.java.planned_scans import python_scan, python_source, python_table
from lakelog.spark.catalog_plugin.java.proxy import Proxy
from lakelog.spark.catalog_plugin.java.scan_proxy import ScanProxy, pruned
from lakelog.spark.options import TIMEZONE
from lakelog.spark.session import session_zone
from lakelog.spark.shown_range import CHANGES_FROM
from lakelog.spark.source.batch.changelog_reader import CHANGE_FIELDS, ChangelogReader, changelog_reader
from lakelog.spark.source.reading.read_mark import note_attached
from lakelog.spark.source.streams.changelog_stream import check_changes_options, start_to_text
from lakelog.spark.types import to_spark_schema

if TYPE_CHECKING:
    from lakelog.spark.catalog_plugin.java.jvm import Jvm
    from lakelog.spark.catalog_plugin.loaded_table import LoadedTable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NET = "NET_CHANGES"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedChanges:
    """The range that is asked for, or all changes; with `is_net` only what remains of them.

    It is resolved when it is read: a stream that goes on from its checkpoint no longer needs the state that it names.
    """

    between: CommitRange | None
    is_net: bool


class AttachedChangelog(Proxy):
    """The changes of a table in a range. They come finished, so that Spark has nothing to add or to leave out."""

    interfaces = ("catalog.Changelog",)

    def __init__(self, jvm: Jvm, name: str, loaded: LoadedTable, context: Any) -> None:  # a Java ChangelogContext
        check_changes_options(loaded.given)
        between = _range(context.range())
        mode = str(context.deduplicationMode().toString())
        super().__init__(jvm, f"lakelog changes of {name}, {loaded.identity}: {between} {mode}")
        self._name = name
        self._loaded = loaded
        self._noted = note_attached(self.toString(), loaded)
        self._asked = AskedChanges(between=between, is_net=mode == _NET)
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
        return self.jvm.references(self._loaded.table.schema.primary_keys)

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
        return ChangesScan(self.jvm, self.toString(), self._loaded, self._schema, self._asked)


class ChangesScan(ScanProxy):
    """A read of changes: of a range, or from its start on as a stream."""

    interfaces = ("read.Scan",)

    def __init__(self, jvm: Jvm, text: str, loaded: LoadedTable, schema: spark.StructType, asked: AskedChanges) -> None:
        super().__init__(jvm, f"scan by {text}", schema)
        self._loaded = loaded
        self._asked = asked
        self._lock = RLock()
        self._scan: Any = None

    def toBatch(self) -> Any:  # a Java Batch
        """The tasks; the same at each call, of which a query makes several."""
        with self._lock:
            if self._scan is None:
                self._scan = python_scan(self.jvm, self._reader(), self._schema)
            return self._scan.toBatch()

    def toMicroBatchStream(self, checkpoint: str) -> Any:  # a Java MicroBatchStream
        """The stream. Raises UnsupportedError for a range that it cannot have, InvalidRequestError for options."""
        loaded, asked = self._loaded, self._asked
        if asked.is_net:
            raise UnsupportedError(
                "readStream.changes with deduplicationMode=netChanges: a stream has no end up to which changes of a "
                "row are one change; leave the option out, or read a range with spark.read"
            )
        if asked.between is not None and asked.between.last is not None:
            raise UnsupportedError("readStream.changes has no end: read a range with spark.read")
        options = {
            TIMEZONE.key: session_zone(self.jvm.session),
            **loaded.source_options(),
            CHANGES_FROM: start_to_text(asked.between),
        }
        table = python_table(self.jvm, python_source(self.jvm), self._schema)
        return table.newScanBuilder(self.jvm.options(options)).build().toMicroBatchStream(checkpoint)

    def _reader(self) -> ChangelogReader:
        self._loaded.check_batch()
        store, between = self._loaded.table.store, self._asked.between
        after, up_to = (RangeEnd(number=0), None) if between is None else between.ends(store)
        where, is_net = self._loaded.options.where, self._asked.is_net
        return changelog_reader(store, where, self._schema, after=after, up_to=up_to, is_net=is_net)


def _range(asked: Any) -> CommitRange | None:  # a Java ChangelogRange
    """The range that a statement names; None for all changes."""
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
            return None
    return CommitRange(
        first=first,
        last=last,
        includes_first=bool(asked.startingBoundInclusive()),
        includes_last=bool(asked.endingBoundInclusive()),
    )

"""The leaves of a Spark plan: what a query reads."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any  # Any: py4j gives Java objects without types

from lakelog.common.quoting import cut
from lakelog.filestore.metadata.origins import ForeignSource, ReadMode, Source, TableSource, UnknownSource
from lakelog.filestore.metadata.tables import TableStore
from lakelog.lineage.records.sources import source_of_table, state_read
from lakelog.spark.options import open_for_read, read_of
from lakelog.spark.session import FORMAT, java_strings
from lakelog.spark.source.reading.read_mark import attached_state, read_of_leaf, read_of_partition
from lakelog.spark.source.streams.audit_stream import audited
from lakelog.warehouse.system_names import names_system_table

PUSHDOWN_CONF = "spark.sql.python.filterPushdown.enabled"
NAMING_OPTIONS = ("table", "path", "subscribe", "subscribePattern", "topic", "dbtable")  # none of them is secret
_NAME_MAX = 500
_V2_STREAM = "StreamingDataSourceV2ScanRelation"
_V1_STREAM = "StreamingExecutionRelation"
_V2 = frozenset({"DataSourceV2Relation", "DataSourceV2ScanRelation"})
_PYTHON_TABLE = "PythonTable"
CHANGES_TABLE = "ChangelogTable"
_CONSTANTS = frozenset({"Range", "OneRowRelation", "CTERelationRef"})  # the leaves of the last one are in the plan, too
_FILE_FORMAT = "FileFormat"
_REFRESHED = "tableVersionsRefreshed"  # of Spark's QueryExecution, in newer versions
_refreshes: dict[str, bool] = {}  # classes of executions: whether they have it, which Py4J takes a millisecond to say


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLeaf:
    """A stream that a query reads: `table`, or if that is None, a source of another format, with its name.

    `stream` is the Java object that gives its offsets; None for sources of Spark's V1 API.
    """

    table: TableSource | None
    format: str
    name: str | None
    stream: Any = None


def leaves_of(plan: Any) -> Iterator[Any]:  # a Java LogicalPlan, and Java LogicalPlans
    """The leaves of a plan, then those of its subqueries."""
    subqueries = plan.subqueriesAll()
    for one in (plan, *(subqueries.apply(at) for at in range(subqueries.size()))):
        leaves = one.collectLeaves()
        yield from (leaves.apply(at) for at in range(leaves.size()))


def read_plan(execution: Any) -> Any:  # Java: a QueryExecution, a LogicalPlan
    """The analyzed plan with the versions of tables that a run of it reads: from now on, if it has not run yet."""
    kind = execution.getClass().getName()
    if kind not in _refreshes:
        _refreshes[kind] = _REFRESHED in dir(execution)
    return getattr(execution, _REFRESHED)() if _refreshes[kind] else execution.analyzed()


def stream_leaf_of(leaf: Any) -> StreamLeaf | None:  # a Java LogicalPlan
    """The stream that a leaf reads; None for another leaf. Opens a table."""
    kind = leaf.getClass().getSimpleName()
    if kind == _V1_STREAM:
        text = leaf.source().toString()
        name, _, rest = text.partition("[")
        return StreamLeaf(table=None, format=name.partition("@")[0], name=cut(rest.rstrip("]"), _NAME_MAX) or None)
    if kind != _V2_STREAM:
        return None
    relation = leaf.relation()
    options = options_of(relation)
    is_changes = relation.table().getClass().getSimpleName() == CHANGES_TABLE
    attached = attached_state(relation.table().changelog() if is_changes else relation.table())
    if attached is not None:
        table: TableSource | None = source_of_table(attached.table.store, mode=ReadMode.STREAM)
    else:
        table = table_of(options) if is_ours(relation.table()) else None
    return StreamLeaf(table=table, format=format_of(relation.table()), name=name_in(options), stream=leaf.stream())


def first_offset(stream: Any, plan: Any) -> str | None:  # Java: a SparkDataStream, the plan of a micro-batch
    """The offset from which a micro-batch reads a stream; None if its plan does not have it."""
    for leaf in leaves_of(plan):
        if leaf.getClass().getSimpleName() == _V2_STREAM and leaf.stream().equals(stream):
            start = leaf.startOffset()
            return str(start.get().json()) if start.isDefined() else None
    return None


def read_by_leaf(leaf: Any, jvm: Any) -> StreamLeaf | Source | None:  # a Java LogicalPlan
    """The stream, or what else a leaf reads; None for constants."""
    streaming = stream_leaf_of(leaf)
    return source_of_leaf(leaf, jvm) if streaming is None else streaming


def sources_of_plan(plan: Any, jvm: Any, *, batch_rdd: int | None = None) -> list[Source]:
    """What the leaves of a plan read; those that are streams are unknown sources."""
    found = (source_of_leaf(leaf, jvm, batch_rdd=batch_rdd) for leaf in leaves_of(plan))
    return [source for source in found if source is not None]


def source_of_leaf(leaf: Any, jvm: Any, *, batch_rdd: int | None = None) -> Source | None:
    """What a leaf that is not a stream reads; None for constants, and for the micro-batch itself (`batch_rdd`)."""
    tagged = read_of_leaf(leaf, jvm)
    if tagged is not None:
        return tagged
    match leaf.getClass().getSimpleName():
        case kind if kind in _CONSTANTS:
            return None
        case kind if kind in _V2:
            return _of_relation(leaf, jvm)
        case "LogicalRelation":
            return source_of_files(leaf.relation())
        case "LogicalRDD" if batch_rdd is not None and leaf.rdd().id() == batch_rdd:
            return None
        case "LogicalRDD" | "LocalRelation" | "ExternalRDD":
            return UnknownSource(
                why="rows that the program made: createDataFrame, an RDD or a checkpoint of a DataFrame"
            )
        case kind:
            return UnknownSource(why=f"a leaf of the plan that lakelog does not know: {kind}")


def format_of(table: Any) -> str:  # a Java Table
    """The format of a table of Spark's V2 API. For some, such as Kafka's, it is the name of the class."""
    name = cut(table.name(), _NAME_MAX)
    return name.removesuffix("Table").lower() if name == table.getClass().getSimpleName() else name


def options_of(relation: Any) -> dict[str, str]:  # a Java DataSourceV2RelationBase
    """The options of a relation, with the keys as the user wrote them."""
    return java_strings(relation.options().asCaseSensitiveMap())


def table_of(options: dict[str, str]) -> TableSource:
    """The table that a stream with these options reads."""
    return source_of_table(store_read_by(options), mode=ReadMode.STREAM)


def store_read_by(options: dict[str, str], columns: Collection[str] = ()) -> TableStore:
    """The table that a read with these options reads; a batch read, which has `columns`, in those of its state."""
    spelled = {key.lower(): value for key, value in options.items()}
    name = spelled.get("table") or spelled.get("path", "")
    given = audited(options)[1] if names_system_table(name, in_warehouse="warehouse" in spelled) else options
    table = open_for_read(given)
    of_state = read_of(given, table)[0] if columns else table
    return (of_state if {*columns} <= {*of_state.schema.field_names} else table).store


def is_ours(table: Any) -> bool:  # a Java Table
    """Whether a table is read by `format("lakelog")`."""
    return bool(table.getClass().getSimpleName() == _PYTHON_TABLE and table.name() == FORMAT)


def _of_relation(leaf: Any, jvm: Any) -> Source:
    relation = leaf.relation() if leaf.getClass().getSimpleName() == "DataSourceV2ScanRelation" else leaf
    table, options = relation.table(), options_of(relation)
    attached = attached_state(table)
    if attached is not None:
        return state_read(attached.table.store, attached.snapshot)
    if not is_ours(table):
        return ForeignSource(format=format_of(table), name=name_in(options))
    found = _planned_read(relation, table)
    if found is None:
        return UnknownSource(why=f"the read of {name_in(options)} does not say of which snapshot it is")
    if jvm.org.apache.spark.sql.internal.SQLConf.get().getConfString(PUSHDOWN_CONF, "false") == "true":
        return replace(found, end=None, is_exact=False, why=f"with {PUSHDOWN_CONF} Spark plans each read anew")
    return found


def _planned_read(relation: Any, table: Any) -> TableSource | None:
    """What a read shows, according to its partitions. Spark plans them now, unless it has done so, and keeps them."""
    field = table.getClass().getDeclaredField("ds")
    field.setAccessible(True)
    read = field.get(table).getOrCreateReadInfo(table.name(), relation.options(), table.schema(), False)
    partitions = read.partitions()
    return None if partitions.isEmpty() else read_of_partition(partitions.apply(0))


def source_of_files(relation: Any) -> Source:  # a Java BaseRelation
    """The files that a relation reads, or the relation by its name."""
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return ForeignSource(format=relation.getClass().getSimpleName(), name=cut(relation.toString(), _NAME_MAX))
    roots = relation.location().rootPaths()
    name = cut(roots.apply(0).toString(), _NAME_MAX) if roots.size() else None
    format_name = relation.fileFormat().getClass().getSimpleName().removesuffix(_FILE_FORMAT).lower()
    return ForeignSource(format=format_name, name=name)


def name_in(options: dict[str, str]) -> str | None:
    """The table, path or topic that options name."""
    spelled = {key.lower(): value for key, value in options.items()}
    return next((cut(spelled[key.lower()], _NAME_MAX) for key in NAMING_OPTIONS if spelled.get(key.lower())), None)

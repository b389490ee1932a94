"""Which datasets the leaves of a Spark plan read, and where a command writes: what the JSON of a plan does not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any  # Any: py4j gives Java objects without types

from lakelog.common.quoting import cut
from lakelog.filestore.metadata.origins import ForeignSource
from lakelog.filestore.schema import MAIN_BRANCH
from lakelog.lineage.columns.dataset_names import (
    dataset_of_jdbc,
    dataset_of_path,
    dataset_of_table,
    dataset_of_topic,
)
from lakelog.lineage.columns.declared_fields import source_table_of
from lakelog.lineage.columns.field_documents import SourceTable
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.spark.capture.plan_leaves import (
    CHANGES_TABLE,
    NAMING_OPTIONS,
    format_of,
    is_ours,
    name_in,
    options_of,
    source_of_files,
    store_read_by,
)
from lakelog.spark.session import java_strings
from lakelog.spark.source.reading.read_mark import attached_state, is_attached, read_of_leaf
from lakelog.warehouse.warehouse import open_store

LeafRead = Dataset | SourceTable
SPARK_CATALOG = "spark_catalog"
_NAME_MAX = 500
_VIEW = "CreateViewCommand"
_WITH_QUERY = frozenset({"CreateDataSourceTableAsSelectCommand", "CreateHiveTableAsSelectCommand"})
_ON_RELATION = frozenset(
    {
        "AppendData",
        "InsertOnlyMerge",
        "OverwriteByExpression",
        "OverwritePartitionsDynamic",
        "ReplaceData",
        "WriteDelta",
    }
)
_INNER_RELATION = frozenset({"DataSourceV2ScanRelation", "StreamingDataSourceV2ScanRelation"})
_V2 = frozenset({"DataSourceV2Relation", *_INNER_RELATION})
_NAMED = frozenset({"CreateTableAsSelect", "ReplaceTableAsSelect"})
_KAFKA = "kafka"
_SERVERS = "kafka.bootstrap.servers"


def read_of(leaf: Any, jvm: Any) -> LeafRead | None:  # a Java LogicalPlan, and py4j's view of the JVM
    """What a leaf reads; None if it is no dataset, such as rows that the program made. May open a table."""
    tagged = read_of_leaf(leaf, jvm)
    if tagged is not None:
        if tagged.path is None:
            return dataset_of_table(tagged.table, tagged.branch)
        store = open_store(tagged.path, branch=tagged.branch or MAIN_BRANCH)
        return source_table_of(store, dataset_of_table(tagged.table, tagged.branch))
    match leaf.getClass().getSimpleName():
        case kind if kind in _V2:
            relation = leaf.relation() if kind in _INNER_RELATION else leaf
            return _of_table(relation.table(), options_of(relation))
        case "StreamingRelationV2":
            options = java_strings(leaf.extraOptions().asCaseSensitiveMap())
            return _of_table(leaf.table(), options, kind=str(leaf.sourceName()))
        case "StreamingRelation":
            return _of_stream(leaf.dataSource())
        case "StreamingExecutionRelation":
            return _of_running_stream(leaf.source())
        case "LogicalRelation":
            return _of_relation(leaf)
        case "HiveTableRelation":
            return _of_identifier(leaf.tableMeta().identifier())
    return None


def dataset_of_leaf(leaf: Any, jvm: Any) -> Dataset | None:  # a Java LogicalPlan, and py4j's view of the JVM
    """The dataset that a leaf reads; None if it is no dataset."""
    read = read_of(leaf, jvm)
    return read.dataset if isinstance(read, SourceTable) else read


def target_of(plan: Any, jvm: Any) -> Dataset | None:  # a Java LogicalPlan, and py4j's view of the JVM
    """Where a command writes; None for a query, and where the command does not say it."""
    kind = plan.getClass().getSimpleName()
    match kind:
        case "InsertIntoHadoopFsRelationCommand":
            table = plan.catalogTable()
            if table.isDefined():
                return _of_identifier(table.get().identifier())
            return dataset_of_path(plan.outputPath().toString())
        case kind if kind in _WITH_QUERY:
            return _of_identifier(plan.table().identifier())
        case kind if kind == _VIEW:
            return _of_identifier(plan.name())
        case kind if kind in _NAMED:
            return _of_resolved(plan.name())
        case kind if kind in _ON_RELATION:
            return dataset_of_leaf(plan.table(), jvm)
        case "UpdateTable" | "DeleteFromTable" | "MergeIntoTable":
            target = plan.targetTable() if kind == "MergeIntoTable" else plan.table()
            leaves = target.collectLeaves()
            return dataset_of_leaf(leaves.apply(0), jvm) if leaves.size() else None
    return None


def queries_of(plan: Any) -> Iterator[Any]:  # Java LogicalPlans
    """The plans in which a command has its leaves: once it is analyzed, the query of some is no child."""
    kind = plan.getClass().getSimpleName()
    if kind == _VIEW:
        yield plan.plan()
    elif kind in _WITH_QUERY or kind in _NAMED:
        yield plan.query()
    else:
        yield plan


def _of_table(table: Any, options: dict[str, str], kind: str = "") -> LeafRead:  # a Java Table
    """A table of Spark's V2 API; `kind` is its format, if that is known."""
    attached = attached_state(table.changelog() if table.getClass().getSimpleName() == CHANGES_TABLE else table)
    if attached is not None:
        return source_table_of(attached.table.store)
    if is_ours(table):
        return source_table_of(store_read_by(options, list(table.schema().fieldNames())))
    kind = kind or format_of(table)
    return _named(kind, options) if name_in(options) else Dataset(kind, kind)


def _of_stream(source: Any) -> Dataset:  # a Java DataSource of Spark's V1 API
    given = {key: source.options().get(key) for key in (*NAMING_OPTIONS, _SERVERS)}  # a Scala map
    options = {key: str(value.get()) for key, value in given.items() if value.isDefined()}
    return _named(str(source.className()), options)


def _of_running_stream(source: Any) -> Dataset:  # a Java Source of Spark's V1 API
    """The source of a query that runs: only its text says what it reads, such as `FileStreamSource[file:/in]`."""
    name, _, rest = str(source.toString()).partition("[")
    place = rest.rstrip("]")
    return dataset_of_path(place) if is_path(place) else Dataset(name.partition("@")[0], cut(place, _NAME_MAX))


def _named(kind: str, options: dict[str, str]) -> Dataset:
    """What options name: a topic, a path, or a name in the namespace of its format."""
    spelled = {key.lower(): value for key, value in options.items()}
    name = name_in(options) or ""
    if kind == _KAFKA:
        return dataset_of_topic(spelled.get(_SERVERS), name)
    return dataset_of_path(name) if is_path(name) else Dataset(kind, name)


def is_path(name: str) -> bool:
    """Whether a name is that of a file or a folder."""
    return name.startswith("/") or "://" in name or name.startswith("file:")


def _of_relation(leaf: Any) -> Dataset:  # a Java LogicalRelation
    table = leaf.catalogTable()
    if table.isDefined():
        return _of_identifier(table.get().identifier())
    relation = leaf.relation()
    if relation.getClass().getSimpleName() == "JDBCRelation":
        options = relation.jdbcOptions()
        return dataset_of_jdbc(str(options.url()), str(options.tableOrQuery()))
    found = source_of_files(relation)
    if not isinstance(found, ForeignSource):
        return Dataset("unknown", "")
    name = found.name or ""
    return dataset_of_path(name) if is_path(name) else Dataset(found.format, name)


def _of_identifier(identifier: Any) -> Dataset:  # a Java TableIdentifier
    catalog, database = identifier.catalog(), identifier.database()
    names = [str(database.get())] if database.isDefined() else []
    namespace = str(catalog.get()) if catalog.isDefined() else SPARK_CATALOG
    return Dataset(namespace, ".".join([*names, str(identifier.table())]))


def _of_resolved(name: Any) -> Dataset | None:  # a Java ResolvedIdentifier
    if name.getClass().getSimpleName() != "ResolvedIdentifier":
        return None
    catalog, identifier = name.catalog(), name.identifier()
    named = ".".join([*identifier.namespace(), str(identifier.name())])
    return dataset_of_table(named) if is_attached(catalog) else Dataset(str(catalog.name()), named)

"""Which datasets the leaves of a Spark plan read, and where a command writes: what the JSON of a plan does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any  # Any: py4j gives Java objects without types

from lakelog.common.quoting import cut
from lakelog.filestore.io import warehouse_of
from lakelog.lineage.fields.field_edges import Dataset
from lakelog.lineage.records.record import ForeignSource, ReadMode, TableSource
from lakelog.lineage.records.sources import source_of_table
from lakelog.spark.capture.plan_leaves import (
    NAMING_OPTIONS,
    format_of,
    is_ours,
    name_in,
    options_of,
    source_of_files,
    table_of,
)
from lakelog.spark.session import java_strings
from lakelog.spark.source.reading.read_mark import attached_state, read_of_leaf

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
_SECRETS = re.compile(r"^(jdbc:\w+:(?://)?)(?:[^/@]*@)?([^?;]*).*", re.DOTALL)  # users, passwords and settings in a URL


def dataset_of_leaf(leaf: Any, jvm: Any) -> Dataset | None:  # a Java LogicalPlan, and py4j's view of the JVM
    """What a leaf reads; None if it is no dataset, such as rows that the program made. May open a table."""
    tagged = read_of_leaf(leaf, jvm)
    if tagged is not None:
        return dataset_of_table(tagged)
    match leaf.getClass().getSimpleName():
        case kind if kind in _V2:
            relation = leaf.relation() if kind in _INNER_RELATION else leaf
            return _of_table(relation.table(), options_of(relation))
        case "StreamingRelationV2":
            options = java_strings(leaf.extraOptions().asCaseSensitiveMap())
            return _of_table(leaf.table(), options, kind=str(leaf.sourceName()))
        case "StreamingRelation":
            return _of_stream(leaf.dataSource())
        case "LogicalRelation":
            return _of_relation(leaf)
        case "HiveTableRelation":
            return _of_identifier(leaf.tableMeta().identifier())
    return None


def dataset_of_table(source: TableSource) -> Dataset:
    """A table of a warehouse, or a branch of it."""
    namespace = "lakelog" if source.path is None else warehouse_of(source.path)
    return Dataset(namespace, source.table if source.branch is None else f"{source.table}$branch_{source.branch}")


def target_of(plan: Any, jvm: Any) -> Dataset | None:  # a Java LogicalPlan, and py4j's view of the JVM
    """Where a command writes; None for a query, and where the command does not say it."""
    kind = plan.getClass().getSimpleName()
    match kind:
        case "InsertIntoHadoopFsRelationCommand":
            table = plan.catalogTable()
            if table.isDefined():
                return _of_identifier(table.get().identifier())
            return Dataset(plan.fileFormat().toString().lower(), cut(plan.outputPath().toString(), _NAME_MAX))
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


def _of_table(table: Any, options: dict[str, str], kind: str = "") -> Dataset:  # a Java Table
    """A table of Spark's V2 API; `kind` is its format, if that is known."""
    attached = attached_state(table)
    if attached is not None:
        return dataset_of_table(source_of_table(attached.table.store, mode=ReadMode.BATCH))
    if is_ours(table):
        return dataset_of_table(table_of(options))
    kind = kind or format_of(table)
    return Dataset(kind, name_in(options) or kind)


def _of_stream(source: Any) -> Dataset:  # a Java DataSource of Spark's V1 API
    given = {key: source.options().get(key) for key in NAMING_OPTIONS}  # a Scala map
    options = {key: str(value.get()) for key, value in given.items() if value.isDefined()}
    return Dataset(str(source.className()), name_in(options) or "")


def _of_relation(leaf: Any) -> Dataset:  # a Java LogicalRelation
    table = leaf.catalogTable()
    if table.isDefined():
        return _of_identifier(table.get().identifier())
    relation = leaf.relation()
    if relation.getClass().getSimpleName() == "JDBCRelation":
        options = relation.jdbcOptions()
        return Dataset(_SECRETS.sub(r"\1\2", str(options.url())), cut(str(options.tableOrQuery()), _NAME_MAX))
    found = source_of_files(relation)
    return Dataset(found.format, found.name or "") if isinstance(found, ForeignSource) else Dataset("unknown", "")


def _of_identifier(identifier: Any) -> Dataset:  # a Java TableIdentifier
    catalog, database = identifier.catalog(), identifier.database()
    names = [str(database.get())] if database.isDefined() else []
    namespace = str(catalog.get()) if catalog.isDefined() else SPARK_CATALOG
    return Dataset(namespace, ".".join([*names, str(identifier.table())]))


def _of_resolved(name: Any) -> Dataset | None:  # a Java ResolvedIdentifier
    if name.getClass().getSimpleName() != "ResolvedIdentifier":
        return None
    identifier = name.identifier()
    return Dataset(str(name.catalog().name()), ".".join([*identifier.namespace(), str(identifier.name())]))

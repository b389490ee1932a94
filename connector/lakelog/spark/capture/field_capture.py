"""What the fields of a DataFrame or of a statement are made from, by the plan that Spark has analyzed.

The plan is read as JSON in one call; py4j is asked only for what the leaves read. A failed analysis never fails the
job: it gives the lineage in which each field is opaque, with a warning.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any  # Any: parsed JSON, and py4j gives Java objects without types

from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame

from lakelog.common.errors import UnsupportedError
from lakelog.lineage.columns.field_documents import SourceTable
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.field_operations import FieldLineage, OutputField
from lakelog.lineage.columns.plans.derived import Column, Derived, Rows, opaque
from lakelog.lineage.columns.plans.plan_fields import Leaf, PlanFields, fields_of_plan
from lakelog.lineage.columns.plans.plan_tree import id_of
from lakelog.lineage.columns.plans.writes import VIEW_COLUMNS
from lakelog.lineage.records.best_effort import known_or
from lakelog.spark.capture.leaf_datasets import LeafRead, queries_of, read_of, target_of
from lakelog.spark.capture.plan_leaves import leaves_of

logger = logging.getLogger("lakelog.spark")

_FIELDS = "the lineage of fields is"
_RDD = "LogicalRDD"
_STREAM_WRITES = frozenset({"WriteToMicroBatchDataSource", "WriteToMicroBatchDataSourceV1"})
_MADE_ROWS = frozenset({_RDD, "LocalRelation", "ExternalRDD"})


@dataclass(frozen=True, slots=True)
class BatchStitch:
    """The rows of a streaming plan, which stand for the micro-batch in `foreachBatch`: its plan is one leaf of rows.

    The leaf has the ids of the streaming plan; where a query reads it twice, the second one has other ids and the same
    RDD, `rdd`. `tables` are the tables of ours that the stream reads, `reads` all that it reads.
    """

    rows: Rows
    rdd: int | None = None
    tables: tuple[SourceTable, ...] = ()
    reads: frozenset[Dataset] = frozenset()

    def of_batch(self, plan: Any) -> BatchStitch:  # a Java LogicalPlan
        """The stitch for a query on a micro-batch: its RDD is that of the leaf with the ids of the stream."""
        rdds = {leaf.rdd().id() for leaf in leaves_of(plan) if _is_rdd(leaf) and self._has_ids_of(leaf)}
        return replace(self, rdd=rdds.pop() if len(rdds) == 1 else None)

    def rows_of(self, leaf: Any) -> Rows | None:  # a Java LogicalRDD
        """The rows of the stream, if the leaf is the micro-batch."""
        is_batch = self.rdd is not None and leaf.rdd().id() == self.rdd
        return self.rows if is_batch or self._has_ids_of(leaf) else None

    def _has_ids_of(self, leaf: Any) -> bool:  # a Java LogicalRDD
        output = leaf.output()
        return all(_id_of(output.apply(at)) in self.rows.columns for at in range(output.size()))


def stitch_of_query(execution: Any, jvm: Any) -> BatchStitch:  # a Java StreamExecution, and py4j's view of the JVM
    """The stitch of a streaming query that runs."""

    def analyzed() -> PlanFields:
        plan = execution.logicalPlan()
        is_write = plan.getClass().getSimpleName() in _STREAM_WRITES
        return fields_of_java_plan(plan.child() if is_write else plan, jvm)

    found = known_or("the lineage of fields of a stream is", analyzed, lambda _: unknown_fields(()))
    return BatchStitch(found.rows, tables=found.tables, reads=frozenset((*found.lineage.sources(), *found.reads)))


def fields_of(rows: DataFrame, *, stitch: BatchStitch | None = None) -> FieldLineage:
    """What the columns of a DataFrame are made from. `stitch` is for DataFrames made in `foreachBatch`."""
    return plan_fields_of(rows, stitch=stitch).lineage


def plan_fields_of(rows: DataFrame, *, stitch: BatchStitch | None = None) -> PlanFields:
    """Like `fields_of`, with the tables that are read."""
    return known_or(_FIELDS, lambda: _analyzed(rows, stitch), lambda _: unknown_fields(_names_of(rows)))


def fields_or_unknown(plan: Any, jvm: Any) -> PlanFields:  # a Java LogicalPlan, and py4j's view of the JVM
    """The lineage of an analyzed plan; of one that cannot be analysed nothing is known."""
    return known_or(_FIELDS, lambda: fields_of_java_plan(plan, jvm), lambda _: unknown_fields(()))


def unknown_fields(names: Iterable[str]) -> PlanFields:
    """The lineage of fields of which nothing is known."""
    lineage = FieldLineage(fields=tuple(OutputField(name=name, is_opaque=True) for name in names))
    return PlanFields(lineage, Rows([], {}), frozenset())


def fields_of_java_plan(
    plan: Any, jvm: Any, *, stitch: BatchStitch | None = None, leaves: Mapping[int, Leaf] | None = None
) -> PlanFields:
    """The lineage of an analyzed plan, a Java LogicalPlan. `leaves` are known before, by the id of the first column.

    Raises what py4j raises, and KeyError and the like for a plan of another version of Spark.
    """
    known = dict(leaves or {})
    tables: dict[Dataset, SourceTable] = {}
    known |= _leaves_in(plan, jvm, stitch, known, tables)
    tree = json.loads(plan.toJSON())
    for query in queries_of(plan):
        put_projections(tree, query)
    if plan.getClass().getSimpleName() == "CreateViewCommand":
        columns = plan.userSpecifiedColumns()
        tree[0][VIEW_COLUMNS] = [str(columns.apply(at)._1()) for at in range(columns.size())]
    found = fields_of_plan(tree, known, target_of(plan, jvm))
    read = {one for one in known.values() if isinstance(one, Dataset)}
    if stitch is not None and any(isinstance(one, Rows) for one in known.values()):
        read |= stitch.reads
    read |= set(found.lineage.sources())
    return replace(
        found,
        tables=tuple(table for name, table in sorted(tables.items()) if name in read),
        reads=tuple(sorted(read - set(found.lineage.sources()))),
    )


def _analyzed(rows: DataFrame, stitch: BatchStitch | None) -> PlanFields:
    try:
        plan = rows._jdf.queryExecution().analyzed()
    except PySparkAttributeError as error:
        raise UnsupportedError("Spark Connect does not show the plan of a query") from error
    stitch = None if stitch is None else stitch.of_batch(plan)
    return fields_of_java_plan(plan, rows.sparkSession._jvm, stitch=stitch)


def _leaves_in(
    plan: Any, jvm: Any, stitch: BatchStitch | None, known: Mapping[int, Leaf], tables: dict[Dataset, SourceTable]
) -> dict[int, Leaf]:
    """What the leaves of a plan read, by the id of their first column, but for those that are known.

    Puts the tables of ours into `tables`, with those of the stitch.
    """
    tables |= {} if stitch is None else {one.dataset: one for one in stitch.tables}
    found: dict[int, Leaf] = {}
    made: list[Any] = []
    for leaf in (leaf for query in queries_of(plan) for leaf in leaves_of(query)):
        output = leaf.output()
        number = _id_of(output.apply(0)) if output.size() else None
        if number is None or number in known or number in found:
            continue
        kind = leaf.getClass().getSimpleName()
        read = stitch.rows_of(leaf) if stitch is not None and kind == _RDD else _read(leaf, jvm)
        if isinstance(read, SourceTable):
            tables[read.dataset] = read
            found[number] = read.dataset
        elif read is not None:
            found[number] = read
        elif kind in _MADE_ROWS:
            made.append(leaf)
    if stitch is not None and stitch.rows.output and not any(isinstance(read, Rows) for read in found.values()):
        found |= {_id_of(leaf.output().apply(0)): _of_whole_batch(leaf, stitch.rows) for leaf in made}
    return found


def _read(leaf: Any, jvm: Any) -> LeafRead | None:  # a Java LogicalPlan, and py4j's view of the JVM
    """What a leaf reads; None, with a warning, also if that cannot be found: its columns are opaque then."""
    return known_or(f"what {leaf.getClass().getSimpleName()} reads is", lambda: read_of(leaf, jvm), lambda _: None)


def _is_rdd(leaf: Any) -> bool:  # a Java LogicalPlan
    return bool(leaf.getClass().getSimpleName() == _RDD)


def _of_whole_batch(leaf: Any, rows: Rows) -> Rows:  # a Java LogicalPlan
    """Rows that a program made, probably from the micro-batch: each column may be made from all of it."""
    attributes = [leaf.output().apply(at) for at in range(leaf.output().size())]
    columns = [Column(_id_of(attribute), str(attribute.name())) for attribute in attributes]
    made: Derived = opaque(rows.values(), "rows of the program")
    return Rows(columns, {column.id: made for column in columns}, rows.dataset)


def _id_of(attribute: Any) -> int:  # a Java Attribute
    return int(attribute.exprId().id())


def _names_of(rows: DataFrame) -> list[str]:
    """The columns of a DataFrame; none of one that Spark cannot analyze, which fails where it is used."""
    return known_or("the columns of a DataFrame are", lambda: rows.columns, lambda _: [])


_EXPAND, _PROJECTIONS = "Expand", "projections"


def put_projections(tree: Any, plan: Any) -> None:  # the JSON of a plan; the Java LogicalPlan
    """Complete the JSON in place. Costs calls of py4j for each operator, if one lacks its projections."""
    lacking = {id_of(members["output"][-1][0]): members for members in _lacking(tree)}
    if not lacking:
        return
    subqueries = plan.subqueriesAll()
    for root in (plan, *(subqueries.apply(at) for at in range(subqueries.size()))):
        for node in _expands(root):
            members = lacking.get(int(node.output().last().exprId().id()))
            if members is not None:
                members[_PROJECTIONS] = [[_json_of(one) for one in _items(row)] for row in _items(node.projections())]


def _lacking(value: Any) -> Iterator[dict[str, Any]]:
    """The nodes without their projections."""
    todo = [value]
    while todo:
        found = todo.pop()
        if isinstance(found, list):
            todo.extend(found)
        elif isinstance(found, dict):
            if str(found.get("class", "")).endswith(f".{_EXPAND}") and not found.get(_PROJECTIONS):
                yield found
            todo.extend(inner for inner in found.values() if isinstance(inner, list))


def _expands(root: Any) -> Iterator[Any]:  # Java LogicalPlans
    todo = [root]
    while todo:
        node = todo.pop()
        if node.getClass().getSimpleName() == _EXPAND:
            yield node
        todo.extend(_items(node.children()))


def _items(sequence: Any) -> Iterator[Any]:  # a Scala Seq
    return (sequence.apply(at) for at in range(sequence.size()))


def _json_of(expression: Any) -> Any:  # a Java Expression
    return json.loads(expression.toJSON())

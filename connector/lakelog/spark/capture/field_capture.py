"""What the fields of a DataFrame or of a statement are made from, by the plan that Spark has analyzed.

The plan is read as JSON in one call; py4j is asked only for what the leaves read. A failed analysis never fails the
job: it gives the lineage in which each field is opaque, with a warning.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any  # Any: py4j gives Java objects without types

from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame

from lakelog.common.errors import UnsupportedError
from lakelog.lineage.fields.field_edges import Dataset
from lakelog.lineage.fields.field_lineage import FieldLineage, OutputField
from lakelog.lineage.fields.plans.derived import Column, Derived, Rows, opaque
from lakelog.lineage.fields.plans.plan_fields import Leaf, PlanFields, fields_of_plan
from lakelog.lineage.fields.plans.writes import VIEW_COLUMNS
from lakelog.spark.capture.leaf_datasets import dataset_of_leaf, queries_of, target_of
from lakelog.spark.capture.lost_members import put_projections
from lakelog.spark.capture.plan_leaves import leaves_of

logger = logging.getLogger("lakelog.spark")

_RDD = "LogicalRDD"
_MADE_ROWS = frozenset({_RDD, "LocalRelation", "ExternalRDD"})


@dataclass(frozen=True, slots=True)
class BatchStitch:
    """The rows of a streaming plan, which stand for the micro-batch in `foreachBatch`: its plan is one leaf of rows.

    The leaf has the ids of the streaming plan; where a query reads it twice, the second one has other ids and the same
    RDD, `rdd`.
    """

    rows: Rows
    rdd: int | None = None

    def of_batch(self, batch: DataFrame) -> BatchStitch:
        """The stitch for queries on this micro-batch."""
        leaves = batch._jdf.queryExecution().analyzed().collectLeaves()
        rdds = [leaf for leaf in map(leaves.apply, range(leaves.size())) if leaf.getClass().getSimpleName() == _RDD]
        return replace(self, rdd=rdds[0].rdd().id() if len(rdds) == 1 else None)


def stitch_of(rows: DataFrame) -> BatchStitch:
    """The stitch of a streaming query, by the DataFrame from which it is started; call it before `start()`."""
    try:
        return BatchStitch(_analyzed(rows, None).rows)
    except Exception as error:  # noqa: BLE001  # the query runs even if the analysis fails
        logger.warning("the lineage of fields of a stream is not known: %r", error)
        return BatchStitch(Rows([], {}))


def fields_of(rows: DataFrame, *, stitch: BatchStitch | None = None) -> FieldLineage:
    """What the columns of a DataFrame are made from. `stitch` is for DataFrames made in `foreachBatch`."""
    try:
        return _analyzed(rows, stitch).lineage
    except Exception as error:  # noqa: BLE001  # the rows are written even if the analysis fails
        logger.warning("the lineage of fields is not known: %r", error)
        return FieldLineage(fields=tuple(OutputField(name=name, is_opaque=True) for name in _names_of(rows)))


def fields_of_java_plan(
    plan: Any, jvm: Any, *, stitch: BatchStitch | None = None, leaves: Mapping[int, Leaf] | None = None
) -> PlanFields:
    """The lineage of an analyzed plan, a Java LogicalPlan. `leaves` are known before, by the id of the first column.

    Raises what py4j raises, and KeyError and the like for a plan of another version of Spark.
    """
    known = dict(leaves or {})
    known |= _leaves_in(plan, jvm, stitch, known)
    tree = json.loads(plan.toJSON())
    for query in queries_of(plan):
        put_projections(tree, query)
    if plan.getClass().getSimpleName() == "CreateViewCommand":
        columns = plan.userSpecifiedColumns()
        tree[0][VIEW_COLUMNS] = [str(columns.apply(at)._1()) for at in range(columns.size())]
    return fields_of_plan(tree, known, target_of(plan, jvm))


def _analyzed(rows: DataFrame, stitch: BatchStitch | None) -> PlanFields:
    try:
        plan = rows._jdf.queryExecution().analyzed()
    except PySparkAttributeError as error:
        raise UnsupportedError("Spark Connect does not show the plan of a query") from error
    return fields_of_java_plan(plan, rows.sparkSession._jvm, stitch=stitch)


def _leaves_in(plan: Any, jvm: Any, stitch: BatchStitch | None, known: Mapping[int, Leaf]) -> dict[int, Leaf]:
    """What the leaves of a plan read, by the id of their first column, but for those that are known."""
    found: dict[int, Leaf] = {}
    made: list[Any] = []
    for leaf in (leaf for query in queries_of(plan) for leaf in leaves_of(query)):
        output = leaf.output()
        number = _id_of(output.apply(0)) if output.size() else None
        if number is None or number in known or number in found:
            continue
        kind = leaf.getClass().getSimpleName()
        read = _stitched(leaf, stitch) if stitch is not None and kind == _RDD else _dataset_of(leaf, jvm)
        if read is not None:
            found[number] = read
        elif kind in _MADE_ROWS:
            made.append(leaf)
    if stitch is not None and stitch.rows.output and not any(isinstance(read, Rows) for read in found.values()):
        found |= {_id_of(leaf.output().apply(0)): _of_whole_batch(leaf, stitch.rows) for leaf in made}
    return found


def _dataset_of(leaf: Any, jvm: Any) -> Dataset | None:  # a Java LogicalPlan, and py4j's view of the JVM
    """What a leaf reads; None, with a warning, also if that cannot be found: its columns are opaque then."""
    try:
        return dataset_of_leaf(leaf, jvm)
    except Exception as error:  # noqa: BLE001  # the other leaves keep their lineage
        logger.warning("what %s reads is not known: %r", leaf.getClass().getSimpleName(), error)
        return None


def _stitched(leaf: Any, stitch: BatchStitch) -> Rows | None:  # a Java LogicalRDD
    """The rows of the stream, if the leaf is the micro-batch."""
    ids = [_id_of(leaf.output().apply(at)) for at in range(leaf.output().size())]
    if all(number in stitch.rows.columns for number in ids):
        return stitch.rows
    is_batch = stitch.rdd is not None and leaf.rdd().id() == stitch.rdd
    return stitch.rows if is_batch else None


def _of_whole_batch(leaf: Any, rows: Rows) -> Rows:  # a Java LogicalPlan
    """Rows that a program made, probably from the micro-batch: each column may be made from all of it."""
    attributes = [leaf.output().apply(at) for at in range(leaf.output().size())]
    columns = [Column(_id_of(attribute), str(attribute.name())) for attribute in attributes]
    made: Derived = opaque(rows.values(), "rows of the program")
    return Rows(columns, {column.id: made for column in columns}, rows.dataset)


def _id_of(attribute: Any) -> int:  # a Java Attribute
    return int(attribute.exprId().id())


def _names_of(rows: DataFrame) -> Iterator[str]:
    try:
        yield from rows.columns
    except Exception as error:  # noqa: BLE001  # a DataFrame that Spark cannot analyze fails where it is used
        logger.warning("the columns of a DataFrame are not known: %r", error)

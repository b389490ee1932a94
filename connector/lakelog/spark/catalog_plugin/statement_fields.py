"""What a statement of SQL makes the fields of its target from, without running it."""

from __future__ import annotations

from typing import Any  # Any: py4j gives Java objects without types

from pyspark.sql import SparkSession

from lakelog.lineage.fields.plans.plan_fields import PlanFields
from lakelog.spark.capture.field_capture import fields_of_java_plan
from lakelog.spark.catalog_plugin.java.jvm import Jvm
from lakelog.spark.catalog_plugin.row_statements import RowStatement
from lakelog.spark.catalog_plugin.session_sql import FindCatalog, parsed, row_statement_of

_MODE = "org.apache.spark.sql.execution.CommandExecutionMode"


def fields_of_statement(session: SparkSession, text: str, find_catalog: FindCatalog) -> PlanFields:
    """The lineage of a statement.

    Raises what Spark raises for a statement that it cannot analyze.
    """
    jvm = Jvm(session)
    plan = parsed(jvm, text)
    statement = row_statement_of(jvm, plan, find_catalog)
    if statement is not None:
        plan = _with_readable_target(jvm, statement)
    execution = session._jsparkSession.sessionState().executePlan(plan, jvm.java_class(_MODE).SKIP())
    return fields_of_java_plan(execution.analyzed(), session._jvm)


def _with_readable_target(jvm: Jvm, statement: RowStatement) -> Any:  # a Java LogicalPlan
    """The tree of a row statement, with a target that Spark does not try to change by writers in the JVM."""
    plan = statement.plan
    target = statement.readable_target()._jdf.queryExecution().analyzed()
    is_merge = plan.getClass().getSimpleName() == "MergeIntoTable"
    children = [target, plan.sourceTable()] if is_merge else [target]
    changed = plan.withNewChildren(jvm.scala_seq(children))
    queries = statement.queries
    return changed if queries is None else queries.withNewChildren(jvm.scala_seq([changed]))

"""What a statement of SQL makes the fields of its target from, without running it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from lakelog.lineage.columns.plans.plan_fields import PlanFields
from lakelog.spark.capture.field_capture import fields_of_java_plan
from lakelog.spark.catalog_plugin.java.jvm import Jvm
from lakelog.spark.catalog_plugin.row_statements import analyzed
from lakelog.spark.catalog_plugin.session_sql import FindCatalog, parsed, row_statement_of


def fields_of_statement(session: SparkSession, text: str, find_catalog: FindCatalog) -> PlanFields:
    """The lineage of a statement.

    Raises what Spark raises for a statement that it cannot analyze.
    """
    jvm = Jvm(session)
    plan = parsed(jvm, text)
    statement = row_statement_of(jvm, plan, find_catalog)
    return fields_of_java_plan(analyzed(jvm, plan), session._jvm) if statement is None else statement.fields()

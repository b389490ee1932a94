"""What the commit of a statement records about its sources: what its plan reads.

Spark keeps the execution of a running statement under an id, which is a property of the thread that runs it.

Source: Spark, `org.apache.spark.sql.execution.SQLExecution`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any  # Any: py4j gives Java objects without types

from lakelog.lineage.columns.field_store import with_fields
from lakelog.lineage.records.declared import with_lineage
from lakelog.spark.capture.capture import is_captured, lineage_of_plan
from lakelog.spark.capture.field_capture import fields_or_unknown
from lakelog.spark.options import declared_lineage
from lakelog.spark.sink.declaring import with_declared

if TYPE_CHECKING:
    from lakelog.catalog import Table
    from lakelog.spark.catalog_plugin.java.jvm import Jvm

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

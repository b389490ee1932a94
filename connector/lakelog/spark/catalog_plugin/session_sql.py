"""What `attach` wraps in a session: `sql` and `newSession`.

Spark refuses UPDATE and MERGE for tables whose writers are not in the JVM, and its DESCRIBE knows no watermark. So
`attach` wraps `spark.sql` of the session visibly, and `detach` unwraps it: a statement that Spark's parser takes for
one of these, on one of our tables, is run here; every other one passes as it is. Other ways to such statements,
`df.mergeInto`, scripts and EXECUTE IMMEDIATE, do not pass through `spark.sql`.

Source: Spark, `org.apache.spark.sql.catalyst.parser.ParserInterface`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import Any  # Any: py4j gives Java objects without types

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark
from pyspark.sql.sql_formatter import SQLStringFormatter

from lakelog.catalog import Catalog
from lakelog.catalog.names.peer_words import other_format
from lakelog.catalog.tables.describing import described_rows
from lakelog.common.errors import LakelogError
from lakelog.spark.catalog_plugin.java.java_errors import as_spark_error
from lakelog.spark.catalog_plugin.java.jvm import Jvm
from lakelog.spark.catalog_plugin.java.parameters import with_values
from lakelog.spark.catalog_plugin.loaded_table import newest
from lakelog.spark.catalog_plugin.partition_proxy import PartitionedTable, drop_partitions
from lakelog.spark.catalog_plugin.row_statements import RowStatement, items_of, quoted_path
from lakelog.spark.session import java_strings

logger = logging.getLogger("lakelog.spark")

_WORDS = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(UPDATE|DELETE|MERGE|WITH|DESC|DESCRIBE|ALTER)\b", re.IGNORECASE | re.DOTALL
)
_PAIMON = "spark.paimon."  # dynamic options of Paimon's own connector
_SETTING = re.compile(rf"\s*SET\s+`?({re.escape(_PAIMON)}[\w.-]+)", re.IGNORECASE)
_SNAPSHOT, _AFFECTED = "snapshot_id", "num_affected_rows"
_OF_MERGE = ("num_updated_rows", "num_deleted_rows", "num_inserted_rows")
_WRAPPED = "_lakelog_sql"
_ROW_STATEMENTS = ("UpdateTable", "DeleteFromTable", "MergeIntoTable")
_INTERNAL = "__"  # how the keys begin that Spark's parser adds to the options of a relation
_DEEP = 3  # catalog.database.table

FindCatalog = Callable[[SparkSession, str], Catalog | None]
FollowSession = Callable[[SparkSession, SparkSession], None]


def wrap_session(session: SparkSession, find_catalog: FindCatalog, follow: FollowSession) -> None:
    """Let `session.sql` run row statements on our tables, and `session.newSession` attach what this session has.

    Nothing if the session is wrapped already.
    """
    if _WRAPPED in vars(session):
        return
    of_spark, new_of_spark = session.sql, session.newSession

    def sql(sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:
        """`SparkSession.sql`, wrapped by `attach`: UPDATE, DELETE and MERGE of tables of ours run in lakelog."""
        if setting := _SETTING.match(sqlQuery):
            warn_of_paimon([setting[1]])
        if not _WORDS.match(sqlQuery):
            return passed(sqlQuery, args, **kwargs)
        formatter = SQLStringFormatter(session)
        try:
            text = formatter.format(sqlQuery, **kwargs) if kwargs else sqlQuery
            return run(text, args)
        finally:
            formatter.clear()

    def passed(text: str, args: Any, **kwargs: Any) -> DataFrame:
        """A statement by Spark; one of another table format that Spark refuses names what replaces it."""
        try:
            return of_spark(text, args, **kwargs)
        except AnalysisException as error:  # Spark's parser raises a kind of it
            other = other_format(text)
            if other is None:
                raise
            raise as_spark_error(Jvm(session), other) from error

    def run(text: str, args: Any) -> DataFrame:
        jvm = Jvm(session)
        plan = parsed(jvm, text)
        try:
            statement = row_statement_of(jvm, plan, find_catalog)
            if statement is None:
                if plan.getClass().getSimpleName() == "DropPartitions" and _drops(jvm, plan, find_catalog):
                    return session.createDataFrame([], spark.StructType())
                return _with_description(jvm, plan, passed(text, args), find_catalog)
            if args:
                statement = row_statement_of(jvm, parsed(jvm, with_values(jvm, text, args)), find_catalog) or statement
            with jvm.active_session():
                snapshot = statement.run()
            if snapshot is not None:
                session.catalog.refreshTable(statement.quoted_name)  # what CACHE TABLE holds
        except LakelogError as error:
            raise as_spark_error(jvm, error) from None
        return session.createDataFrame(*_answer_of(statement, None if snapshot is None else snapshot.id))

    def newSession() -> SparkSession:
        """`SparkSession.newSession`, wrapped by lakelog.spark.attach: the new session has the same warehouses."""
        made = new_of_spark()
        follow(made, session)
        return made

    setattr(session, _WRAPPED, True)
    session.sql, session.newSession = sql, newSession  # type: ignore[method-assign]


def _answer_of(
    statement: RowStatement, snapshot_id: int | None
) -> tuple[list[tuple[int | None, ...]], spark.StructType]:
    """The row that a statement answers with, and its columns: the snapshot, and how many rows changed."""
    counts = statement.counts
    answer = {_SNAPSHOT: snapshot_id, _AFFECTED: counts.affected}
    if statement.is_merge:
        answer |= dict(zip(_OF_MERGE, (counts.updated, counts.deleted, counts.inserted), strict=True))
    return [tuple(answer.values())], spark.StructType([spark.StructField(name, spark.LongType()) for name in answer])


def warn_of_paimon(settings: Iterable[str]) -> None:
    """Say which of the settings are Paimon's, which have no effect here."""
    found = sorted(key for key in settings if key.startswith(_PAIMON))
    if found:
        logger.warning(
            "%s: settings of Paimon's connector have no effect on tables of an attached warehouse; give the option to "
            "a read (t WITH ('key' = 'value')), a table (TBLPROPERTIES) or new tables (table-storage.<option>)",
            ", ".join(found),
        )


def unwrap_session(session: SparkSession) -> None:
    """Give a session its own methods back."""
    if _WRAPPED in vars(session):
        delattr(session, _WRAPPED)
        del session.sql, session.newSession


def parsed(jvm: Jvm, text: str) -> Any:  # a Java LogicalPlan
    """The tree of a statement."""
    with jvm.active_session():
        return jvm.session._jsparkSession.sessionState().sqlParser().parsePlan(text)


def row_statement_of(jvm: Jvm, plan: Any, find_catalog: FindCatalog) -> RowStatement | None:
    """The statement, if it is a row statement on one of our tables."""
    queries = None
    if plan.getClass().getSimpleName() == "UnresolvedWith":
        queries, plan = plan, plan.child()
    kind = plan.getClass().getSimpleName()
    if kind not in _ROW_STATEMENTS:
        return None
    target = plan.targetTable() if kind == "MergeIntoTable" else plan.table()
    alias = None
    if target.getClass().getSimpleName() == "SubqueryAlias":
        alias, target = str(target.alias()), target.child()
    if target.getClass().getSimpleName() != "UnresolvedRelation":
        return None
    catalog, name = _own_table(jvm, target, find_catalog)
    if catalog is None:
        return None  # Spark has the error for it
    given = java_strings(target.options().asCaseSensitiveMap())
    options = tuple(sorted(key for key in given if not key.startswith(_INTERNAL)))
    return RowStatement(
        jvm=jvm, plan=plan, catalog=catalog, full_name=name, alias=alias, queries=queries, options=options
    )


def _own_table(jvm: Jvm, relation: Any, find_catalog: FindCatalog) -> tuple[Catalog | None, str]:
    """The catalog of a table of ours that a tree names, None for another one; and the full name."""
    parts = [str(part) for part in items_of(relation.multipartIdentifier())]
    if len(parts) < _DEEP:
        manager = jvm.session._jsparkSession.sessionState().catalogManager()
        current = [str(part) for part in manager.currentNamespace()]
        parts = [str(manager.currentCatalog().name()), *(current if len(parts) == 1 else []), *parts]
    catalog = find_catalog(jvm.session, parts[0])
    is_ours = catalog is not None and len(parts) == _DEEP and catalog.table_exists(".".join(parts[1:]))
    return (catalog if is_ours else None), ".".join(parts)


def _drops(jvm: Jvm, plan: Any, find_catalog: FindCatalog) -> bool:  # a Java DropPartitions
    """Drop the partitions, if they are those of a table of ours."""
    catalog, name = _own_table(jvm, plan.child(), find_catalog)
    table = None if catalog is None else catalog.load_table(name.partition(".")[2])
    if table is None or not table.schema.partition_keys:
        return False  # Spark has the error for it
    try:
        with jvm.active_session():
            drop_partitions(PartitionedTable(jvm, name, newest(table)), plan)
        jvm.session.catalog.refreshTable(quoted_path(name))
    except LakelogError as error:
        raise as_spark_error(jvm, error) from None
    return True


def _with_description(jvm: Jvm, plan: Any, frame: DataFrame, find_catalog: FindCatalog) -> DataFrame:
    """The answer of a statement; that of DESCRIBE TABLE EXTENDED with what we know of a table of ours.

    Source: FLIP-188, "DESCRIBE".
    """
    if plan.getClass().getSimpleName() != "DescribeRelation" or not plan.isExtended():
        return frame
    catalog, name = _own_table(jvm, plan.relation(), find_catalog)
    if catalog is None:
        return frame
    described = described_rows(catalog.load_table(name.partition(".")[2]).describe())
    rows = [tuple(row) for row in frame.collect()]
    rows += [("", "", ""), ("# Files and Log", "", ""), *((label, text, "") for label, text in described)]
    return jvm.session.createDataFrame(rows, frame.schema)

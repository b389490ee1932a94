"""UPDATE, DELETE and MERGE in `spark.sql`, for tables of attached warehouses.

Spark refuses these statements for tables whose writers are not in the JVM: `session_sql` gives them to this module.

Source: Spark, `org.apache.spark.sql.catalyst.parser.ParserInterface`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any  # Any: py4j gives Java objects without types

from pyspark.sql import DataFrame
from pyspark.sql import types as spark

from lakelog.catalog import Catalog, Table
from lakelog.catalog.columns.char_fields import char_lengths
from lakelog.catalog.columns.written_ddl import quoted_name
from lakelog.catalog.tables.row_actions import DELETE, INSERT, UPDATE, named_values
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.types import DataField
from lakelog.filestore.metadata.origins import BatchLineage
from lakelog.filestore.predicate import Predicate, required_predicate, resolved_columns
from lakelog.filestore.write import AffectedRows, check_deletable, check_replaceable, delete_plan, is_by_place
from lakelog.lineage.columns.field_store import with_fields
from lakelog.lineage.columns.plans.plan_fields import PlanFields
from lakelog.lineage.records.best_effort import known_or
from lakelog.lineage.records.sources import with_lineage
from lakelog.spark.capture.capture import is_captured
from lakelog.spark.capture.field_capture import fields_of_java_plan, unknown_fields
from lakelog.spark.catalog_plugin.column_defaults import default_sql
from lakelog.spark.catalog_plugin.java.assigned_values import Path
from lakelog.spark.catalog_plugin.java.jvm import Jvm
from lakelog.spark.catalog_plugin.loaded_table import as_changed
from lakelog.spark.catalog_plugin.row_changes import Clause, MergeStatement, RowChanges
from lakelog.spark.catalog_plugin.table_proxy import AttachedTable
from lakelog.spark.session import session_zone
from lakelog.spark.statements.by_bucket import is_by_bucket, run_by_bucket, run_on_driver
from lakelog.spark.types import to_spark_schema
from lakelog.streams.options.shown_state import SNAPSHOT_ID

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.metadata.snapshots import Snapshot

logger = logging.getLogger("lakelog.spark")

_MODE = "org.apache.spark.sql.execution.CommandExecutionMode"


@dataclass(slots=True, kw_only=True)
class RowStatement:
    """An UPDATE, DELETE or MERGE of one of our tables; `plan` is Spark's tree of it, `counts` that of its run."""

    jvm: Jvm
    plan: Any
    catalog: Catalog
    full_name: str
    alias: str | None
    queries: Any = None  # the tree of WITH around it
    options: Sequence[str] = ()  # the keys in WITH (...) behind the table
    counts: AffectedRows = field(default_factory=AffectedRows)

    @property
    def what(self) -> str:
        """The statement in errors."""
        kind = {"UpdateTable": "UPDATE", "DeleteFromTable": "DELETE", "MergeIntoTable": "MERGE"}
        return f"{kind[self.plan.getClass().getSimpleName()]} of {self.full_name}"

    @property
    def quoted_name(self) -> str:
        """The full name for Spark."""
        return quoted_path(self.full_name)

    @property
    def is_merge(self) -> bool:
        """Whether it is a MERGE."""
        return bool(self.plan.getClass().getSimpleName() == "MergeIntoTable")

    def run(self) -> Snapshot | None:
        """Run the statement; None when it changes nothing. Raises what the verbs of a table raise."""
        table = self.catalog.load_table(self.full_name.partition(".")[2])
        if self.queries is not None and not self.is_merge:
            raise UnsupportedError(
                f"{self.what} after WITH: write the query into the condition, or make a temporary view"
            )
        if self.options:
            raise UnsupportedError(f"{self.what} takes no options: leave WITH ({self.options[0]} = ...) out")
        table = self._recording(table)
        match self.plan.getClass().getSimpleName():
            case "UpdateTable":
                return self._update(table)
            case "DeleteFromTable":
                return self._delete(table)
        return self._merge(table)

    def fields(self) -> PlanFields:
        """The lineage of the fields that the statement assigns. Raises what Spark raises for one that is not valid."""
        plan, target = self.plan, self._target(None)._jdf.queryExecution().analyzed()
        children = [target, plan.sourceTable()] if self.is_merge else [target]
        plan = plan.withNewChildren(self.jvm.scala_seq(children))
        if self.queries is not None:
            plan = self.queries.withNewChildren(self.jvm.scala_seq([plan]))
        return fields_of_java_plan(analyzed(self.jvm, plan), self.jvm.session._jvm)

    def _recording(self, table: Table) -> Table:
        """A handle whose commit records the lineage of the fields that the statement assigns; it adds its sources."""
        if not is_captured(table.store):
            return table
        return with_lineage(table, with_fields(BatchLineage(), table.store, self._known_fields()))

    def _known_fields(self) -> PlanFields:
        """The lineage of the fields; the statement runs even if its analysis fails."""
        return known_or(f"the lineage of fields of {self.what} is", self.fields, lambda _: unknown_fields(()))

    def _update(self, table: Table) -> Snapshot | None:
        check_replaceable(table.store, "an update")
        condition = self.plan.condition()
        values = self._assigned(table, self.plan.assignments(), keys=table.schema.primary_keys)
        clause = Clause(action=UPDATE, condition=_of_option(condition), values=values)
        return self._run(table, "UPDATE", lambda changes, target: changes.of_rows(target, clause))

    def _delete(self, table: Table) -> Snapshot | None:
        condition = self.plan.condition()
        where: Predicate | None = None
        try:  # a condition that our readers evaluate needs no job of Spark
            zone = session_zone(self.jvm.session)
            where = required_predicate(str(condition.sql()), zone=zone, fields=table.schema.fields)
        except InvalidRequestError:
            where = None
        if where is None or char_lengths(resolved_columns(where, table.schema.fields)):  # Spark compares them padded
            clause = Clause(action=DELETE, condition=condition)
            return self._run(table, "DELETE", lambda changes, target: changes.of_rows(target, clause))
        if table.log is None:
            check_deletable(table.store.schema, table_name=table.name)
        return run_on_driver(table, "DELETE", delete_plan(table.store, where), self._count)

    def _merge(self, table: Table) -> Snapshot | None:
        check_replaceable(table.store, "a merge")
        plan, keys = self.plan, table.schema.primary_keys
        if plan.withSchemaEvolution():
            raise UnsupportedError(f"{self.what} WITH SCHEMA EVOLUTION: add the columns with ALTER TABLE before")
        merge = MergeStatement(
            on=plan.mergeCondition(),
            matched=[self._clause(table, one, ()) for one in items_of(plan.matchedActions())],
            not_matched=[self._clause(table, one, ()) for one in items_of(plan.notMatchedActions())],
            by_source=[self._clause(table, one, keys) for one in items_of(plan.notMatchedBySourceActions())],
        )
        source = self._frame(plan.sourceTable())
        return self._run(table, "MERGE", lambda changes, target: changes.of_merge(target, source, merge))

    def _run(
        self, table: Table, operation: str, actions: Callable[[RowChanges, DataFrame], DataFrame]
    ) -> Snapshot | None:
        store = table.store

        def changing(base: Snapshot | None) -> tuple[RowChanges, DataFrame]:
            found = RowChanges(jvm=self.jvm, table=store, base=base, what=self.what)
            target = self._target_in_columns(table, base) if _is_read_so(store, base) else self._target(base)
            return found, actions(found, target)

        if is_by_bucket(store) and not char_lengths(store.schema.select(store.schema.primary_keys)):
            return run_by_bucket(
                table,
                operation,
                lambda base: RowChanges.by_bucket(*changing(base)),
                records_sources=True,
                counted=self._count,
            )
        return run_on_driver(table, operation, lambda base: RowChanges.on_driver(*changing(base)), self._count)

    def _count(self, counts: AffectedRows) -> None:
        self.counts = counts

    def _target_in_columns(self, table: Table, base: Snapshot | None) -> DataFrame:
        """The rows with the table's columns of now, and their places in files, which no name in SQL gives."""
        loaded, plans = as_changed(table, base), "org.apache.spark.sql"
        relations = self.jvm.scala_object(f"{plans}.execution.datasources.v2.DataSourceV2Relation")
        proxy = AttachedTable(self.jvm, self.full_name, loaded)
        relation = relations.create(proxy, self.jvm.none(), self.jvm.none())
        names = [self.alias] if self.alias is not None else self.full_name.split(".")
        aliases = self.jvm.scala_object(f"{plans}.catalyst.plans.logical.SubqueryAlias")
        return self._of_plan(aliases.apply(self.jvm.scala_seq(names), relation))

    def _target(self, base: Snapshot | None) -> DataFrame:
        """The rows of the table at a snapshot, under the names that the statement has for them; none without one."""
        reader = self.jvm.session.read
        rows = (reader if base is None else reader.option(SNAPSHOT_ID.key, base.id)).table(self.quoted_name)
        if base is None:
            rows = rows.limit(0)
        return rows if self.alias is None else rows.alias(self.alias)

    def _clause(self, table: Table, action: Any, keys: Sequence[str]) -> Clause:  # a Java MergeAction
        kind, condition = action.getClass().getSimpleName(), _of_option(action.condition())
        match kind:
            case "DeleteAction":
                return Clause(action=DELETE, condition=condition)
            case "UpdateStarAction" | "InsertStarAction":
                return Clause(action=INSERT if kind == "InsertStarAction" else UPDATE, condition=condition)
        name, values = UPDATE, self._assigned(table, action.assignments(), keys=keys)
        if kind == "InsertAction":
            name, fields = INSERT, [".".join(path) for path in values if len(path) > 1]
            if fields:
                raise InvalidRequestError(f"{self.what} inserts {fields[0]}, a field: give the whole column")
        return Clause(action=name, condition=condition, values=values)

    def _assigned(self, table: Table, assignments: Any, *, keys: Sequence[str]) -> dict[Path, Any]:
        """{column or field: expression}. Raises for a column of the primary key in `keys`, and for two values."""
        found: dict[Path, Any] = {}
        for assignment in items_of(assignments):
            path = self._path(table, [str(part) for part in items_of(assignment.key().nameParts())])
            taken = next((one for one in found if one[: len(path)] == path[: len(one)]), None)
            if taken is not None:
                shorter = min(taken, path, key=len)
                raise InvalidRequestError(f"{self.what} gives column {'.'.join(shorter)!r} two values")
            found[path] = assignment.value()
        named_values(table.schema.fields, {path[0]: None for path in found}, keys=keys, what=self.what)
        return {
            path: self._value(table.schema.field(path[0]), value) if len(path) == 1 else value
            for path, value in found.items()
        }

    def _path(self, table: Table, parts: list[str]) -> Path:
        """The column, or the field of a column, that an assignment names; an unknown column as it is given."""
        given = [part.lower() for part in parts]
        own = [self.alias.lower()] if self.alias is not None else self.full_name.lower().split(".")
        names = {field.name.lower(): field.name for field in table.schema.fields}
        for count in range(min(len(own), len(given) - 1), -1, -1):
            if given[:count] == own[len(own) - count :] and given[count] in names:
                kind: spark.DataType = to_spark_schema(table.schema.fields)
                return tuple(self._members(kind, parts[count:]))
        return (parts[-1],)

    def _members(self, kind: spark.DataType, parts: Sequence[str]) -> Iterator[str]:
        """The names of a column and of the fields in it, as the table has them."""
        for at, part in enumerate(parts):
            names = {one.name.lower(): one.name for one in kind.fields} if isinstance(kind, spark.StructType) else {}
            if part.lower() not in names:
                raise InvalidRequestError(
                    f"{self.what} sets {'.'.join(parts)}, but {'.'.join(parts[:at])!r} is {kind.simpleString()}: set "
                    "one of its fields, or the whole column"
                )
            yield names[part.lower()]
            assert isinstance(kind, spark.StructType)
            kind = kind[names[part.lower()]].dataType

    def _value(self, field: DataField, value: Any) -> Any:  # Java Expressions
        """The value of an assignment; DEFAULT is that of the column, or null."""
        is_name = value.getClass().getSimpleName() == "UnresolvedAttribute"
        if is_name and [str(part).upper() for part in items_of(value.nameParts())] == ["DEFAULT"]:
            parser = self.jvm.session._jsparkSession.sessionState().sqlParser()
            return parser.parseExpression(default_sql(field) or "NULL")
        return value

    def _frame(self, plan: Any) -> DataFrame:  # a Java LogicalPlan
        """The rows of a source."""
        if self.queries is not None:
            plan = self.queries.withNewChildren(self.jvm.scala_seq([plan]))
        return self._of_plan(plan)

    def _of_plan(self, plan: Any) -> DataFrame:  # a Java LogicalPlan
        session = self.jvm.session
        datasets = self.jvm.scala_object("org.apache.spark.sql.classic.Dataset")
        return DataFrame(datasets.ofRows(session._jsparkSession, plan), session)


def quoted_path(name: str) -> str:
    """The full name of a table for Spark."""
    return ".".join(quoted_name(part) for part in name.split("."))


def analyzed(jvm: Jvm, plan: Any) -> Any:  # Java LogicalPlans
    """The analyzed form of a plan, which is not run."""
    state = jvm.session._jsparkSession.sessionState()
    return state.executePlan(plan, jvm.java_class(_MODE).SKIP()).analyzed()


def items_of(sequence: Any) -> Iterator[Any]:  # a Scala Seq
    """The members of a sequence."""
    for at in range(sequence.size()):
        yield sequence.apply(at)


def _of_option(option: Any) -> Any:  # a Scala Option
    return option.get() if option.isDefined() else None


def _is_read_so(table: FileStoreTable, base: Snapshot | None) -> bool:
    """Whether the rows that a statement changes are not those that a name gives: it has the snapshot's columns."""
    return is_by_place(table) or (base is not None and base.schema_id != table.schema.id)

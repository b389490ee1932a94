"""The rows that UPDATE, DELETE and MERGE of Spark's SQL change, computed by Spark on one snapshot.

Conditions and values are expressions of Spark's parser. A clause that sees one side alone, such as WHEN NOT MATCHED, is
evaluated on that side before the join, so that its names mean that side.

Source: Spark, `org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any  # Any: py4j gives Java objects without types

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as spark

from lakelog.catalog.columns.char_fields import char_lengths
from lakelog.catalog.columns.text_lengths import stored_rows
from lakelog.catalog.columns.written_ddl import quoted_name
from lakelog.catalog.tables.row_actions import (
    ACTION,
    DELETE,
    INSERT,
    MARK,
    NEW,
    OLD,
    ROW,
    changes_of_actions,
    member,
)
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.read import PlannedRead
from lakelog.filestore.schema import PLACE_NAMES
from lakelog.filestore.write import StatementChanges, is_by_place
from lakelog.spark.capture.capture import lineage_of_run
from lakelog.spark.catalog_plugin.column_defaults import default_sql
from lakelog.spark.catalog_plugin.java.assigned_values import Path, assigned_values, column_of, unequated
from lakelog.spark.sink.bucketing import bucket_column_of
from lakelog.spark.statements.by_bucket import BUCKET, Changes
from lakelog.spark.types import to_spark_schema

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.spark.catalog_plugin.java.jvm import Jvm

_CASE = f"{MARK}case"
_SOURCE = f"{MARK}source"  # the row of the source, as a struct
_JOINS = {(True, True): "full_outer", (True, False): "right_outer", (False, True): "left_outer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One action: for which rows (None is all), and the new values of columns and fields; None takes the source's.

    Conditions and values are Java expressions.
    """

    action: str
    condition: Any = None
    values: Mapping[Path, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStatement:
    """The parts of a MERGE. `on` is a Java expression."""

    on: Any
    matched: Sequence[Clause]
    not_matched: Sequence[Clause]
    by_source: Sequence[Clause]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChanges:
    """Computes the changes of a statement on a table at a snapshot. `what` names the statement in errors."""

    jvm: Jvm
    table: FileStoreTable
    base: Snapshot | None
    what: str

    def of_rows(self, target: DataFrame, clause: Clause) -> DataFrame:
        """The actions of an UPDATE or DELETE, row by row; `target` has the rows of the table."""
        self._check_names(target.drop(*PLACE_NAMES), clause)
        chosen = target if clause.condition is None else target.where(self._column(clause.condition))
        chosen = chosen.select("*", self._target_row())
        new = self._row(chosen, clause)
        own = [sf.lit(clause.action).alias(ACTION), sf.col(OLD), new.alias(NEW)]
        return self._actions(chosen.select(*own, *self._places))

    def of_merge(self, target: DataFrame, source: DataFrame, merge: MergeStatement) -> DataFrame:
        """The actions of a MERGE, row by row. Raises InvalidRequestError."""
        self._check_stars(source, merge)
        known = target.drop(*PLACE_NAMES)  # without our columns, which an error would suggest
        matched = known.join(source, self._column(merge.on))
        for rows, clauses in ((matched, merge.matched), (source, merge.not_matched), (known, merge.by_source)):
            for clause in clauses:
                self._check_names(rows, clause)
        for clause in merge.matched:
            self._check_keys(matched, clause)
        target = target.select("*", self._target_row(), sf.monotonically_increasing_id().alias(ROW))
        target = self._evaluated(target, merge.by_source, OLD)
        source = source.select("*", sf.struct("*").alias(_SOURCE))
        source = self._evaluated(source, merge.not_matched, _SOURCE)
        kind = _JOINS.get((bool(merge.not_matched), bool(merge.by_source)), "inner")
        pairs = target.join(source, self._column(merge.on), kind)
        has_old, has_source = sf.col(ROW).isNotNull(), sf.col(_SOURCE).isNotNull()
        cases: list[tuple[Column, str, Column]] = []
        for clause in merge.matched:
            holds = has_old & has_source
            if clause.condition is not None:
                holds = holds & self._column(clause.condition)
            cases.append((holds, clause.action, self._row(pairs, clause)))
        for side, alone, clauses in (
            (_SOURCE, has_source & ~has_old, merge.not_matched),
            (OLD, has_old & ~has_source, merge.by_source),
        ):
            for at, clause in enumerate(clauses):
                cases.append((alone & sf.col(_holds(side, at)), clause.action, sf.col(_made(side, at))))
        return self._actions(_first_case(pairs, cases, self._places))

    def _check_stars(self, source: DataFrame, merge: MergeStatement) -> None:
        """Raise InvalidRequestError for UPDATE SET * or INSERT * of a source that lacks a column of the table."""
        stars = any(one.values is None and one.action != DELETE for one in (*merge.matched, *merge.not_matched))
        given = {name.lower() for name in source.columns}
        missing = [name for name in self._names if name.lower() not in given]
        if stars and missing:
            raise InvalidRequestError(
                f"{self.what}: * takes every column of the table from the source, which lacks {', '.join(missing)}; "
                "name the columns that are set, or select the missing ones"
            )

    def _evaluated(self, rows: DataFrame, clauses: Sequence[Clause], side: str) -> DataFrame:
        """The rows with what clauses that see this side alone say: whether each holds, and the row that it makes."""
        added: list[Column] = []
        for at, clause in enumerate(clauses):
            holds = sf.lit(True) if clause.condition is None else self._column(clause.condition)
            added += [holds.alias(_holds(side, at)), self._row(rows, clause).alias(_made(side, at))]
        return rows.select("*", *added) if added else rows

    def _row(self, rows: DataFrame, clause: Clause) -> Column:
        """The row that a clause makes of one of the rows, as a struct of the table's columns.

        Columns without a value keep that of the table, and have their default in a new row.
        """
        if clause.action == DELETE:
            return sf.lit(None)
        schema = to_spark_schema(self.table.schema.fields)
        values: dict[Path, Column] = {}
        if clause.values is None:
            values |= {(name,): sf.col(f"{_SOURCE}.{quoted_name(name)}") for name in self._names}
        else:
            values |= {path: self._column(value) for path, value in clause.values.items()}
        made = assigned_values(self.jvm, rows, values, schema, what=self.what)
        columns: list[Column] = []
        for field, own in zip(schema.fields, self.table.schema.fields, strict=True):
            if clause.action == INSERT:
                kept = sf.expr(default_sql(own) or "NULL").cast(field.dataType)
            else:
                kept = sf.col(f"{OLD}.{quoted_name(field.name)}")
                if field.name in self.table.schema.primary_keys:  # which equals what it is set to
                    made.pop((field.name,), None)
            columns.append(_new_value(field, (field.name,), made, kept).alias(field.name))
        return sf.struct(*columns)

    def _check_names(self, rows: DataFrame, clause: Clause) -> None:
        """Raise AnalysisException for names in conditions and values that the rows lack."""
        if clause.condition is not None:
            rows.where(self._column(clause.condition))
        rows.select(*(self._column(value) for value in (clause.values or {}).values()))

    def _check_keys(self, pairs: DataFrame, clause: Clause) -> None:
        """Raise InvalidRequestError for a primary key that a clause sets to what ON does not equate with it."""
        keys = [name for name in self.table.schema.primary_keys if clause.values is None or (name,) in clause.values]
        if clause.action == DELETE or not keys:
            return
        values = None if clause.values is None else [self._column(clause.values[name,]) for name in keys]
        for name in unequated(pairs, keys, values):
            raise InvalidRequestError(
                f"{self.what} sets {name!r}, a column of the primary key, by which a row is found, to a value that ON "
                "does not equate with it: leave it out, or delete the row, and insert it with its new key"
            )

    def _target_row(self) -> Column:
        return sf.struct(*(sf.col(quoted_name(name)) for name in self._names)).alias(OLD)

    def _column(self, expression: Any) -> Column:  # a Java Expression
        return column_of(self.jvm, expression)

    def by_bucket(self, actions: DataFrame) -> tuple[DataFrame, Changes]:
        """The actions with the buckets of their rows, and how tasks make changes of them."""
        schema = self.table.schema
        keys: list[Column] = []
        for name in schema.bucket_keys:
            at = self._names.index(name)
            sides = [sf.col(member(side, at)) for side in (OLD, NEW) if member(side, at) in actions.columns]
            keys.append(sf.coalesce(*sides).alias(name))
        found = actions.select("*", *keys).withColumn(BUCKET, bucket_column_of(schema)).drop(*schema.bucket_keys)
        return found, partial(_bucket_changes, self.table, self.what)

    def on_driver(self, actions: DataFrame) -> StatementChanges:
        """The changes that the actions make, worked out by the driver.

        Raises InvalidRequestError for a row that several rows of the source change.
        """
        has_keys = bool(self.table.schema.primary_keys)
        found = self._as_stored(actions.toArrow())
        changes = changes_of_actions(self.table, found, what=self.what, has_stored_keys=has_keys)
        return replace(changes, lineage=lineage_of_run(actions, self.table))

    def _actions(self, rows: DataFrame) -> DataFrame:
        """The rows with their actions, as columns that `changes_of_actions` knows."""
        own = [name for name in (ACTION, ROW, *PLACE_NAMES) if name in rows.columns]
        # Columns, and not structs: members that are NOT NULL would be so in a struct that is null, too.
        sides = [side for side in (OLD, NEW) if rows.schema[side].dataType != spark.NullType()]
        if self._places:  # which say what the old rows are
            sides.remove(OLD)
        columns = [
            sf.col(f"{side}.{quoted_name(name)}").alias(member(side, at))
            for side in sides
            for at, name in enumerate(self._names)
        ]
        return rows.select(*own, *columns)

    def _as_stored(self, found: pa.Table) -> pa.Table:
        """The rows with what they are known by as it is stored: Spark pads CHAR columns, which other writers may not.

        That is the primary key; in a change-log table it is all of the old row.
        """
        schema = self.table.schema
        names = self._names if schema.is_change_log else list(schema.primary_keys)
        fields = schema.select(names)
        if not char_lengths(fields):
            return found
        sides = [
            [member(side, self._names.index(name)) for name in names]
            for side in ((OLD,) if schema.is_change_log else (OLD, NEW))
        ]
        sides = [members for members in sides if members[0] in found.column_names]
        if not sides:
            return found
        known = () if self.base is None else PlannedRead.of(self.table, self.base, fields).batches()
        return stored_rows(found, sides, known, fields, what=self.what)

    @property
    def _places(self) -> list[Column]:
        """The columns of places, in a table by places."""
        return [sf.col(name) for name in PLACE_NAMES] if is_by_place(self.table) else []

    @property
    def _names(self) -> list[str]:
        return [field.name for field in self.table.schema.fields]


def _new_value(field: spark.StructField, path: Path, made: Mapping[Path, Column], kept: Column) -> Column:
    """The value of a column or field: the one that is made for it, or `kept` with what is made for fields of it."""
    if path in made:
        return made[path]
    if not any(one[: len(path)] == path for one in made):
        return kept
    assert isinstance(field.dataType, spark.StructType)
    members = [
        _new_value(one, (*path, one.name), made, kept.getField(one.name)).alias(one.name)
        for one in field.dataType.fields
    ]
    return sf.struct(*members)


def _bucket_changes(table: FileStoreTable, what: str, actions: pa.Table, _bucket: int) -> StatementChanges:
    """The changes of the actions on the rows of one bucket. Raises InvalidRequestError."""
    return changes_of_actions(table, actions, what=what, has_stored_keys=True)


def _first_case(pairs: DataFrame, cases: Sequence[tuple[Column, str, Column]], also: Sequence[Column]) -> DataFrame:
    """The pairs for which a case holds, with the action and the row of the first such case."""
    number = sf.lit(None)
    for at, (holds, _, _) in reversed(list(enumerate(cases))):
        number = sf.when(holds, sf.lit(at)).otherwise(number)
    chosen = pairs.select("*", number.alias(_CASE)).where(sf.col(_CASE).isNotNull())
    action, new = sf.lit(None), sf.lit(None)
    for at, (_, name, row) in enumerate(cases):
        action = sf.when(sf.col(_CASE) == at, sf.lit(name)).otherwise(action)
        if name != DELETE:
            new = sf.when(sf.col(_CASE) == at, row).otherwise(new)
    return chosen.select(action.alias(ACTION), sf.col(ROW), sf.col(OLD), new.alias(NEW), *also)


def _holds(side: str, at: int) -> str:
    return f"{side}_{at}_holds"


def _made(side: str, at: int) -> str:
    return f"{side}_{at}_row"

"""Values of UPDATE and MERGE in the types of what they are assigned to, by the rule of INSERT ... BY NAME.

Source: Spark, `org.apache.spark.sql.catalyst.analysis.TableOutputResolver`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias  # Any: py4j gives Java objects without types

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import types as spark

from lakelog.catalog.tables.row_actions import MARK
from lakelog.common.errors import InvalidRequestError
from lakelog.spark.catalog_plugin.java.jvm import Jvm

Path: TypeAlias = tuple[str, ...]  # the name of a column, then those of fields in it

_CATALYST = "org.apache.spark.sql.catalyst"
_WHOLE = frozenset({"byte", "short", "integer", "long"})
_NESTED = (spark.StructType, spark.ArrayType, spark.MapType)


class _Reasons:
    """A function of Scala that collects what Spark does not throw."""

    class Java:
        implements = ("scala.Function1",)

    def __init__(self) -> None:
        self.found: list[str] = []

    def apply(self, reason: Any) -> None:
        self.found.append(str(reason))


def assigned_values(
    jvm: Jvm, rows: DataFrame, values: Mapping[Path, Column], schema: spark.StructType, *, what: str
) -> dict[Path, Column]:
    """The values, which are expressions over the rows, in the types of the columns and fields of `schema`.

    Fields of structs are found by their names at any depth. Raises InvalidRequestError for a type that INSERT refuses
    too, and for a struct that has other fields; `what` begins the error.
    """
    given = resolved(rows, list(values.values()))
    wanted = spark.StructType([spark.StructField(path[-1], kind_at(schema, path)) for path in values])
    attributes = jvm.scala_object(f"{_CATALYST}.types.DataTypeUtils").toAttributes(jvm.schema(wanted).asNullable())
    resolver = jvm.scala_object(f"{_CATALYST}.analysis.TableOutputResolver")
    mode = jvm.scala_object(f"{_CATALYST}.analysis.TableOutputResolver$DefaultValueFillMode").NONE()
    conf = jvm.session._jsparkSession.sessionState().conf()
    found: dict[Path, Column] = {}
    for at, (path, value) in enumerate(zip(values, given, strict=True)):
        attribute, reasons = attributes.apply(at), _Reasons()
        try:
            made = resolver.resolveUpdate(what, value, attribute, conf, reasons, jvm.scala_seq(path), mode)
        except AnalysisException as error:
            raise _refused(what, path, wanted[at].dataType, attribute, value) from error
        if reasons.found:
            raise _refused(what, path, wanted[at].dataType, attribute, value)
        found[path] = column_of(jvm, made)
    return found


def resolved(rows: DataFrame, values: list[Column]) -> list[Any]:  # Java Expressions
    """Expressions over the rows, as Spark's analysis has them."""
    named = [value.alias(f"{MARK}value_{at}") for at, value in enumerate(values)]
    chosen = rows.select("*", *named)._jdf.queryExecution().analyzed().projectList()
    first = chosen.size() - len(named)
    return [chosen.apply(first + at).child() for at in range(len(named))]


def column_of(jvm: Jvm, expression: Any) -> Column:  # a Java Expression
    """An expression as a column."""
    return Column(jvm.scala_object("org.apache.spark.sql.classic.ExpressionUtils").column(expression))


def unequated(pairs: DataFrame, names: Sequence[str], values: list[Column] | None) -> list[str]:
    """Those columns of the left side of a join whose values are not those that its condition equates with them.

    Without values these are the columns of the right side with the same names.
    """
    join = pairs._jdf.queryExecution().analyzed()
    own, given = _by_name(join.left()), _by_name(join.right())
    made = [given[name.lower()] for name in names] if values is None else resolved(pairs, values)
    condition = join.condition().get()
    return [name for name, value in zip(names, made, strict=True) if not _equates(condition, own[name.lower()], value)]


def _by_name(plan: Any) -> dict[str, Any]:  # Java: a LogicalPlan; Attributes
    output = plan.output()
    return {str(output.apply(at).name()).lower(): output.apply(at) for at in range(output.size())}


def _equates(condition: Any, column: Any, value: Any) -> bool:  # Java Expressions
    """Whether a condition says that a column equals a value, so that the column keeps its value with it.

    A comparison in another type says it of whole numbers alone: '01' equals 1, too.
    """
    kind = condition.getClass().getSimpleName()
    if kind == "And":
        return _equates(condition.left(), column, value) or _equates(condition.right(), column, value)
    if kind not in ("EqualTo", "EqualNullSafe"):
        return False
    is_whole = {str(one.dataType().typeName()) for one in (column, value)} <= _WHOLE
    sides = (condition.left(), condition.right())
    return any(
        _uncast(other).semanticEquals(value) and (_uncast(own) if is_whole else own).semanticEquals(column)
        for own, other in (sides, sides[::-1])
    )


def _uncast(expression: Any) -> Any:  # Java Expressions
    while expression.getClass().getSimpleName() == "Cast":
        expression = expression.child()
    return expression


def kind_at(schema: spark.StructType, path: Path) -> spark.DataType:
    """The type of a column, or of a field in it."""
    kind: spark.DataType = schema
    for name in path:
        assert isinstance(kind, spark.StructType)
        kind = kind[name].dataType
    return kind


def _refused(what: str, path: Path, kind: spark.DataType, attribute: Any, value: Any) -> InvalidRequestError:
    wanted, given = attribute.dataType().sql(), value.dataType().sql()
    way_out = f"write CAST(... AS {wanted})"
    if isinstance(kind, _NESTED):
        way_out = "fields are found by their names: give each of them once, in a type that INSERT takes"
    return InvalidRequestError(
        f"{what} sets {'.'.join(path)!r}, which is {wanted}, to a value of type {given}; {way_out}"
    )

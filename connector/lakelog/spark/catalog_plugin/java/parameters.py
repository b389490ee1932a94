"""Values in the place of parameters, by Spark itself. Source: Spark, `ParameterHandler`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any  # Any: py4j gives Java objects without types

from pyspark.sql import Column
from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from lakelog.spark.catalog_plugin.java.jvm import Jvm

_CONVERTER = "org.apache.spark.sql.classic.ColumnNodeToExpressionConverter"
_HANDLER = "org.apache.spark.sql.catalyst.parser.ParameterHandler"


def with_values(jvm: Jvm, text: str, args: Mapping[str, Any] | Sequence[Any]) -> str:
    """The text of a statement with literals in the place of `:name` or `?`. Raises as Spark for one without a value."""
    handler = jvm.scala_object(_HANDLER)
    if isinstance(args, Mapping):
        values = {str(name): _literal(jvm, value) for name, value in args.items()}
        return str(handler.substituteNamedParameters(text, jvm.scala_map(values))._1())
    return str(handler.substitutePositionalParameters(text, jvm.scala_seq([_literal(jvm, one) for one in args]))._1())


def _literal(jvm: Jvm, value: Any) -> Any:  # a Java Expression
    column: Any = value if isinstance(value, Column) else sf.lit(value)
    return jvm.scala_object(_CONVERTER).apply(column._jc.node())

"""Declarations of what columns are made from, for code that no plan shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from lakelog.catalog.columns.written_ddl import quoted_name
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed, shown
from lakelog.lineage.columns.plans.struct_rules import DECLARED, INPUT_PREFIX


def declare_inputs(rows: DataFrame, inputs: Mapping[str, str | Sequence[str]]) -> DataFrame:
    """The same rows, whose lineage says from which columns the named ones are made.

    For functions that take whole rows, such as `mapInPandas`, `mapInArrow` and `applyInPandas`: without a declaration
    each of their columns comes from all columns that the function is given, and is marked as opaque. `inputs` is
    {column: columns that the function is given}; other columns stay as they are. Call it on what the function gives:

        scored = declare_inputs(rows.mapInPandas(score, "id LONG, score DOUBLE"), {"id": "id", "score": ["age", "sum"]})

    Costs nothing when the rows are computed. A name that the function is not given leaves its column opaque. Raises
    InvalidRequestError for a column that the rows do not have, and for one without inputs.
    """
    unknown = [name for name in inputs if name not in rows.columns]
    if unknown:
        raise InvalidRequestError(
            f"the rows have no column {shown(unknown[0])}: their columns are {listed(rows.columns)}"
        )
    given = {name: [one] if isinstance(one, str) else [*dict.fromkeys(one)] for name, one in inputs.items()}
    empty = [name for name, names in given.items() if not names]
    if empty:
        raise InvalidRequestError(
            f"column {shown(empty[0])} is declared without inputs: name the columns it is made from, or leave it out"
        )
    return rows.select(
        *(_declared(rows, name, given[name]) if name in given else rows[quoted_name(name)] for name in rows.columns)
    )


def _declared(rows: DataFrame, name: str, inputs: Sequence[str]) -> Column:
    marks = (f.lit(0).alias(f"{INPUT_PREFIX}{one}") for one in inputs)
    value = f.struct(rows[quoted_name(name)].alias(DECLARED), *marks).getField(DECLARED)
    return value.alias(name)

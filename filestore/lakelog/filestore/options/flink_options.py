"""Options by which Flink's catalog of Paimon keeps computed columns and watermarks: kept here, and without effect.

    schema.<place>.name, .data-type, .expr, .comment                   a computed column, in its place among all columns
    schema.watermark.0.rowtime, .strategy.expr, .strategy.data-type    the watermark

Source: Paimon, `FlinkCatalogPropertiesUtil`.
"""

from __future__ import annotations

import re

_KEY = re.compile(
    r"schema\.(?:\d{1,5}\.(?:name|data-type|expr|comment|metadata|virtual)"
    r"|watermark\.0\.(?:rowtime|strategy\.expr|strategy\.data-type))"
)


def is_flink_key(key: str) -> bool:
    """Whether an option is one of these."""
    return _KEY.fullmatch(key) is not None


def computed_column(place: int, *, name: str, kind: str, expression: str, comment: str | None = None) -> dict[str, str]:
    """The options of a computed column of type `kind`; `place` counts all columns from 0."""
    parts = {"name": name, "data-type": kind, "expr": expression, "comment": comment}
    return {f"schema.{place}.{part}": value for part, value in parts.items() if value is not None}


def watermark(*, column: str, kind: str, expression: str) -> dict[str, str]:
    """The options of the watermark of a column of type `kind`."""
    prefix = "schema.watermark.0"
    return {
        f"{prefix}.rowtime": column,
        f"{prefix}.strategy.expr": expression,
        f"{prefix}.strategy.data-type": kind,
    }

"""Defaults of columns: constants that INSERT statements write where they have no value.

A schema file holds the text of a number or boolean as it is, and of any other value as a string in quotes. Rows that
exist when a column gets a default keep what they have. Source: Paimon, `DefaultValueUtils`.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.arrow import to_arrow_type
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import shown
from lakelog.common.types import DataField

_ZONE = re.compile(r"(?:Z|[+-]\d\d:?\d\d)$", re.IGNORECASE)


def default_of(field: DataField) -> pa.Scalar | None:
    """The default of a column as a value of its type; None without a default.

    Raises InvalidRequestError for a text that is no value of the type.
    """
    text = default_text(field)
    if text is None:
        return None
    kind = to_arrow_type(field.type)
    if pa.types.is_timestamp(kind) and kind.tz is not None and _ZONE.search(text) is None:
        text += "Z"  # without a zone it is in UTC
    try:
        return pc.cast(pa.scalar(text), kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidRequestError(
            f"column {field.name!r} has DEFAULT {shown(text)}, which is no value of type {field.type}"
        ) from error


def default_text(field: DataField) -> str | None:
    """The default of a column as a text without quotes."""
    text = field.default_value
    if text is None or len(text) < len("''") or not (text.startswith("'") and text.endswith("'")):
        return text
    return text[1:-1]

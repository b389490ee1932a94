"""Constants in the SQL of expressions: secrets are left out, and changing ones make no new lineage.

A program in `foreachBatch` may put the number or the time of each batch into its columns: its lineage is the same each
time, but for a constant.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from lakelog.lineage.columns.field_lineage import FieldLineage

_TEXT = r"'(?:[^']|'')*'"
_STRING = re.compile(_TEXT)
_CONSTANT = re.compile(rf"{_TEXT}|(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
# Functions that take keys and passwords, by their names; a function of a user may be one.
TAKES_SECRETS = re.compile(r"\b\w*(?:crypt|hmac|passw|secret|token|sign)\w*\s*\(", re.IGNORECASE)
_PLACE = "?"


def without_secrets(lineage: FieldLineage) -> FieldLineage:
    """The lineage, whose descriptions have no string constants where a function may take keys or passwords."""
    return _described(lineage, lambda text: _STRING.sub(_PLACE, text) if TAKES_SECRETS.search(text) else text)


def without_constants(lineage: FieldLineage) -> FieldLineage:
    """The lineage, whose descriptions have `?` in place of each constant."""
    return _described(lineage, lambda text: _CONSTANT.sub(_PLACE, text))


def _described(lineage: FieldLineage, change: Callable[[str], str]) -> FieldLineage:
    return replace(lineage, fields=tuple(replace(one, description=change(one.description)) for one in lineage.fields))

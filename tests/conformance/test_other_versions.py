"""What an earlier version of lakelog made, or was killed at, this one reads and goes on with; and the other way round.

An archive, made by the earlier version, is what the gate goes on with. `--full` makes more, by both versions.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any  # Any: JSON

import pytest

from tests.conformance import crossing
from tests.conformance.crossing import LATE, VERBS, Rows


def pairs(rows: Rows) -> list[list[object]]:
    """Rows as the program tells them."""
    return [[key, rows[key]] for key in sorted(rows)]


def judge(verb: str, told: dict[str, Any]) -> None:
    """Whether a table is as it was before a verb or after it, and lives on."""
    asked = VERBS[verb]
    before, after = pairs(asked.before), pairs(asked.after)
    if verb == "drop_table":
        assert told["found"] is None or told["found"]["rows"] == before
        assert told["after"] is None
        assert told["written"]["rows"] == pairs(asked.before | LATE)
    else:
        assert told["found"]["rows"] in (before, after)
        assert told["after"]["rows"] == after, told.get("refused")
        assert told["written"]["rows"] == pairs(asked.after | LATE)
    for what in ("rows", "tags", "branches"):
        assert told["tidied"][what] == told["written"][what]
    assert told.get("log_is_equal", True)

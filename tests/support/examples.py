"""How many examples a property is tried with: as many as it names with `--full`, and in the gate half of them.

The examples of the gate are the same each time, `--full` looks for new ones.
"""

from __future__ import annotations

import os

EXAMPLES_VARIABLE = "LAKELOG_TEST_EXAMPLES"  # the factor, which the choice of the tests decides


def examples(count: int) -> int:
    """So many, or the gate's part of them."""
    return max(1, round(count * float(os.environ.get(EXAMPLES_VARIABLE, "1"))))

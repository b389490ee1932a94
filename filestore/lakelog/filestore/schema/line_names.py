"""The names of the lines of a table: its own, and those of its branches."""

from __future__ import annotations

from lakelog.filestore.schema.paths import BRANCH_INFIX, MAIN_BRANCH


def line_name(table: str, branch: str | None) -> str:
    """The name of a branch of a table, `db.t$branch_b`; for None and `main` the name of the table."""
    return table if branch in {None, MAIN_BRANCH} else f"{table}{BRANCH_INFIX}{branch}"

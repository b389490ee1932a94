"""A process that drops a table, or dies at it. Run by `tests.filestore.processes.zygote`."""

from __future__ import annotations

from lakelog.catalog import Catalog
from tests.support.dying_at_changes import die_before_change


def main(warehouse: str, name: str, dies_at: str) -> None:
    """Drop the table, or die before a change of a file."""
    catalog = Catalog(warehouse)
    die_before_change(int(dies_at))
    catalog.drop_table(name)

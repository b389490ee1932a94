"""Branches as Paimon lays them out, made of whole tables: lakelog reads branches, and writes none."""

from __future__ import annotations

import shutil
from pathlib import Path

from lakelog.filestore.table import FileStoreTable


def take_as_branch(table: FileStoreTable, other: FileStoreTable, name: str) -> None:
    """Make the other table a branch: its schemas and snapshots go below the branch, its files among the table's."""
    root, source = Path(table.path), Path(other.path)
    for child in sorted(source.iterdir()):
        is_own = child.name in ("schema", "snapshot", "tag", "changelog")
        shutil.copytree(
            child, root / "branch" / f"branch-{name}" / child.name if is_own else root / child.name, dirs_exist_ok=True
        )

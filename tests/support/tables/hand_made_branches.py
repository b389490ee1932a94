"""Branches made by hand, in Paimon's layout: a copy of the newest snapshot and of the schemas below `branch/`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from lakelog.filestore.table import FileStoreTable


def fork(table: FileStoreTable, name: str, *, is_known: bool = True, created_millis: int = 1) -> FileStoreTable:
    """Make a branch of the newest snapshot; with `is_known` with lakelog's file that says where it began."""
    root = Path(table.path)
    own = root / "branch" / f"branch-{name}"
    shutil.copytree(root / "schema", own / "schema")
    latest = table.snapshots.latest()
    fork: dict[str, object] = {"timeMillis": created_millis}
    (own / "snapshot").mkdir()
    if latest is not None:
        shutil.copy(root / "snapshot" / f"snapshot-{latest.id}", own / "snapshot")
        fork |= {"snapshotId": latest.id, "commitUuid": latest.uuid}
    if is_known:
        (own / "lakelog").mkdir()
        (own / "lakelog" / "fork").write_text(json.dumps(fork), "utf-8")
    return FileStoreTable.open(table.path, branch=name)

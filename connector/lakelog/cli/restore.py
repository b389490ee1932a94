"""`lakelog table restore`: an older state of a table becomes the newest one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakelog.cli.arguments import HERE, AsJson, TableName, Warehouse, find_table
from lakelog.cli.output import print_lines, progress, to_json

if TYPE_CHECKING:
    from lakelog.filestore.readable_table import SnapshotChoice
    from lakelog.filestore.refs.restore import Restored

ToSnapshot = Annotated[int | None, typer.Option("--snapshot-id", help="To this snapshot.")]
ToTimestamp = Annotated[str | None, typer.Option("--timestamp", help="To this time; UTC without a zone.")]
ToTag = Annotated[str | None, typer.Option("--tag", help="To the snapshot that this tag keeps.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")]


def restore(  # noqa: PLR0917  # typer's arguments are the command line's
    table: TableName,
    snapshot_id: ToSnapshot = None,
    timestamp: ToTimestamp = None,
    tag: ToTag = None,
    rewind_writers: Annotated[
        bool, typer.Option("--rewind-writers", help="Let writers write their batches since then again.")
    ] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Bring an older state back in a new snapshot; the snapshots between stay.

    Streams that write the table go on with their next batch: what was restored away does not come again, unless the
    writers are rewound.
    """
    found = find_table(table, warehouse)
    which: SnapshotChoice = {"snapshot_id": snapshot_id, "timestamp": timestamp, "tag": tag}
    with progress(f"restoring {found.name}"):
        restored = found.restore(rewind_writers=rewind_writers, dry_run=dry_run, **which)
    print_lines([to_json(_fields(restored))] if as_json else _lines(restored, is_dry_run=dry_run))


def _fields(restored: Restored) -> dict[str, object]:
    return {
        "target": restored.target.id,
        "base": restored.base.id,
        "snapshot": None if restored.snapshot is None else restored.snapshot.id,
        "rows_added": restored.rows_added,
        "rows_removed": restored.rows_removed,
        "rows_changed": restored.rows_changed,
        "files_added": restored.files_added,
        "files_removed": restored.files_removed,
        "writers": [{"user": one.user, "now": one.identifier, "at_target": one.at_target} for one in restored.writers],
        "rewinds_writers": restored.rewinds_writers,
        "columns_missing": list(restored.columns_missing),
    }


def _lines(restored: Restored, *, is_dry_run: bool) -> list[str]:
    made = "nothing differs" if restored.snapshot is None else f"snapshot {restored.snapshot.id}"
    what = "would be restored" if is_dry_run else made
    lines = [
        f"snapshot {restored.base.id} to {restored.target.id}: {what}",
        f"rows: {restored.rows_added} added, {restored.rows_removed} removed, {restored.rows_changed} changed",
        f"files: {restored.files_added} added, {restored.files_removed} removed",
    ]
    for one in restored.writers:
        then = "no batch" if one.at_target is None else f"batch {one.at_target}"
        goes_on = f"rewound to {then}" if restored.rewinds_writers else f"goes on after batch {one.identifier}"
        lines.append(f"writer {one.user}: batch {one.identifier} now, {then} then; {goes_on}")
    if restored.columns_missing:
        lines.append(f"columns that were dropped since and do not come back: {', '.join(restored.columns_missing)}")
    return lines

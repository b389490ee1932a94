"""`lakelog table restore|rollback`: an older state of a table becomes the newest one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakelog.cli.console.arguments import HERE, AsJson, RenewLog, TableName, Warehouse, find_table, state
from lakelog.cli.console.door import print_lines
from lakelog.cli.console.output import progress, to_json

if TYPE_CHECKING:
    from lakelog.filestore.refs import Restored, RestoredWriter, RolledBack

ToSnapshot = Annotated[int | None, typer.Option("--snapshot-id", help="To this snapshot.")]
ToTimestamp = Annotated[str | None, typer.Option("--timestamp", help="To this time; UTC without a zone.")]
ToTag = Annotated[str | None, typer.Option("--tag", help="To the snapshot that this tag keeps.")]
ToWatermark = Annotated[
    int | None, typer.Option("--watermark", help="To the first snapshot with this watermark or a later one.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")]
RewindWriters = Annotated[
    bool, typer.Option("--rewind-writers", help="Let writers write their batches since then again.")
]


def restore(  # noqa: PLR0917  # typer's arguments are the command line's
    table: TableName,
    snapshot_id: ToSnapshot = None,
    timestamp: ToTimestamp = None,
    tag: ToTag = None,
    watermark: ToWatermark = None,
    rewind_writers: RewindWriters = False,
    renew_log: RenewLog = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Bring an older state back in a new snapshot.

    The snapshots in between stay. Streams that write the table continue with their next batch: batches that were undone
    are not written again, unless the writers are rewound. Rewinding needs a new log, and so does a restore that changes
    much.
    """
    found = find_table(table, warehouse)
    which = state(snapshot_id, timestamp, tag, watermark)
    with progress(f"restoring {found.name}"):
        restored = found.restore(rewind_writers=rewind_writers, renew_log=renew_log, dry_run=dry_run, **which)
    print_lines([to_json(_fields(restored))] if as_json else _lines(restored, is_dry_run=dry_run))


def rollback(  # noqa: PLR0917  # likewise
    table: TableName,
    snapshot_id: ToSnapshot = None,
    timestamp: ToTimestamp = None,
    tag: ToTag = None,
    watermark: ToWatermark = None,
    rewind_writers: RewindWriters = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Delete what came after an older state.

    It deletes all later snapshots, changelogs and tags. Prefer restore, which deletes nothing.

    Not for tables with a log. Stop writers of other engines before. Data files are deleted by remove-orphan-files.
    """
    found = find_table(table, warehouse)
    which = state(snapshot_id, timestamp, tag, watermark)
    with progress(f"rolling back {found.name}"):
        done = found.upkeep.rollback(rewind_writers=rewind_writers, dry_run=dry_run, **which)
    if as_json:
        deleted = {"snapshots": done.snapshot_ids, "changelogs": done.changelog_ids, "tags": done.tags}
        print_lines([to_json({"target": done.target.id, "deleted": deleted, **_effects(done)})])
        return
    what = "would be deleted" if dry_run else "deleted"
    numbers = f"{done.snapshot_ids[0]} to {done.snapshot_ids[-1]}" if done.snapshot_ids else "none"
    named = f"; tags {what}: {', '.join(done.tags)}" if done.tags else ""
    print_lines([f"to snapshot {done.target.id}: snapshots {what}: {numbers}{named}", *_row_lines(done)])


def _fields(restored: Restored) -> dict[str, object]:
    return {
        "target": restored.target.id,
        "base": restored.base.id,
        "snapshot": None if restored.snapshot is None else restored.snapshot.id,
        "files_added": restored.files_added,
        "files_removed": restored.files_removed,
        **_effects(restored),
        "renews_log": restored.renews_log,
        "columns_missing": list(restored.columns_missing),
    }


def _effects(done: Restored | RolledBack) -> dict[str, object]:
    return {
        "rows_added": done.rows_added,
        "rows_removed": done.rows_removed,
        "rows_changed": done.rows_changed,
        "writers": [{"user": one.user, "now": one.identifier, "at_target": one.at_target} for one in done.writers],
        "rewinds_writers": done.rewinds_writers,
    }


def _lines(restored: Restored, *, is_dry_run: bool) -> list[str]:
    made = "nothing differs" if restored.snapshot is None else f"snapshot {restored.snapshot.id}"
    what = "would be restored" if is_dry_run else made
    lines = [
        f"snapshot {restored.base.id} to {restored.target.id}: {what}",
        f"files: {restored.files_added} added, {restored.files_removed} removed",
        *_row_lines(restored),
    ]
    if restored.renews_log:
        lines.append("the log ends, and the table gets one with a new topic" + (": --renew-log" if is_dry_run else ""))
    if restored.columns_missing:
        lines.append(f"columns that were dropped since and do not come back: {', '.join(restored.columns_missing)}")
    return lines


def _row_lines(done: Restored | RolledBack) -> list[str]:
    counts = f"rows: {done.rows_added} added, {done.rows_removed} removed, {done.rows_changed} changed"
    return [counts, *(_writer_line(one, is_rewound=done.rewinds_writers) for one in done.writers)]


def _writer_line(one: RestoredWriter, *, is_rewound: bool) -> str:
    then = "no batch" if one.at_target is None else f"batch {one.at_target}"
    goes_on = f"rewound to {then}" if is_rewound else f"goes on after batch {one.identifier}"
    return f"writer {one.user}: batch {one.identifier} now, {then} then; {goes_on}"

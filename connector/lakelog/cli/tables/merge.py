"""`lakelog table merge`: merge the changes of a branch into its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from lakelog.cli.console.arguments import HERE, AsJson, TableName, Warehouse, find_table, key_value
from lakelog.cli.console.door import print_lines
from lakelog.cli.console.output import print_grid, progress, to_json

if TYPE_CHECKING:
    from lakelog.filestore.refs import BranchMerge

_SHOWN_MAX = 20
_SIDES = ("base", "main", "branch", "decision")


def merge(  # noqa: PLR0917  # typer's arguments are the command line's
    table: TableName,
    branch: Annotated[str, typer.Argument(metavar="BRANCH", help="The branch whose changes the table gets.")],
    base: Annotated[
        str | None, typer.Option("--base", help="The snapshot or tag that both come from; 0 for an empty one.")
    ] = None,
    on_conflict: Annotated[
        list[str] | None,
        typer.Option(
            "--on-conflict",
            help="fail, branch or main; or COLUMN=RULE, repeated, with the rules fail, branch, main, sum, max and min, "
            "and * for all other columns.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what a merge would do; change nothing.")] = False,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Merge what changed in a branch into the table.

    The merge is one snapshot. What changed is what differs from the snapshot that the branch began at or was last
    merged at. Rows that the table has changed too, in another way, are conflicts. With --dry-run the exit code is 3
    when some conflicts are left open.
    """
    found = find_table(table, warehouse)
    with progress(f"merging branch {branch} into {found.name}"):
        merged = found.branches.merge(branch, base=_base(base), on_conflict=_rules(on_conflict or ()), dry_run=dry_run)
    if as_json:
        print_lines([to_json(_fields(merged, is_dry_run=dry_run))])
    else:
        print_lines(_lines(merged, is_dry_run=dry_run))
        _print_conflicts(merged)
    if dry_run and merged.open_conflicts:
        raise typer.Exit(3)


def _base(given: str | None) -> str | int | None:
    return 0 if given == "0" else given


def _rules(given: Sequence[str]) -> str | Mapping[str, str]:
    """One rule for all conflicts, or one per column. Raises InvalidRequestError."""
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    return dict(key_value(one) for one in given) or "fail"


def _fields(merged: BranchMerge, *, is_dry_run: bool) -> dict[str, object]:
    names = ("branch", "base_id", "branch_id", "snapshot_id", "upserted", "inserted", "deleted", "open_conflicts")
    conflicts = merged.conflicts.slice(0, _SHOWN_MAX).to_pylist()
    return {name: getattr(merged, name) for name in names} | {
        "rows_read": merged.rows_read,
        "conflict_count": merged.conflict_count,
        "conflicts": conflicts,
        "is_dry_run": is_dry_run,
    }


def _lines(merged: BranchMerge, *, is_dry_run: bool) -> list[str]:
    if not is_dry_run and merged.snapshot_id is None:
        return [f"branch {merged.branch} has nothing new since snapshot {merged.base_id}"]
    parts = [f"{merged.upserted} rows upserted"] if merged.upserted else []
    parts += [f"{merged.inserted} rows inserted"] if merged.inserted else []
    parts += [f"{merged.deleted} rows deleted"] if merged.deleted else []
    what = ", ".join(parts) or "no row changes"
    where = "would be merged" if is_dry_run else f"merged in snapshot {merged.snapshot_id}"
    decided = merged.conflict_count - merged.open_conflicts
    conflicts = f"; conflicts: {merged.open_conflicts} open, {decided} decided" if merged.conflict_count else ""
    return [f"branch {merged.branch} at snapshot {merged.branch_id}, since {merged.base_id}: {what} {where}{conflicts}"]


def _print_conflicts(merged: BranchMerge) -> None:
    if not merged.conflict_count:
        return
    keys = merged.conflicts.column_names[: -len(_SIDES)]
    rows = merged.conflicts.slice(0, _SHOWN_MAX).to_pylist()
    print_grid(
        [*keys, *_SIDES], ([*(str(row[name]) for name in keys), *(_cell(row[side]) for side in _SIDES)] for row in rows)
    )
    if merged.conflict_count > _SHOWN_MAX:
        print_lines([f"... and {merged.conflict_count - _SHOWN_MAX} more"])


def _cell(value: object) -> str:
    if value is None:
        return "no row"
    if isinstance(value, dict):
        return ", ".join(f"{name}={one}" for name, one in value.items())
    return f"{value:+d}" if isinstance(value, int) else str(value)

"""`lakelog table branch`: the branches of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from lakelog.cli.console.arguments import (
    HERE,
    AsJson,
    OfSnapshotId,
    OfTag,
    OfTimestamp,
    RenewLog,
    TableName,
    Warehouse,
    find_table,
    state,
)
from lakelog.cli.console.door import print_lines
from lakelog.cli.console.output import print_grid, say, to_json
from lakelog.common.timestamps import utc_of

if TYPE_CHECKING:
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.filestore.refs import Branch

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="BRANCH", help="The branch's name.")]
Empty = Annotated[bool, typer.Option("--empty", help="Begin without rows.")]
TimeRetained = Annotated[
    str | None, typer.Option("--time-retained", help="Let `branch expire` delete it when this has passed, as '30 d'.")
]
OlderThan = Annotated[
    str | None, typer.Option("--older-than", help="Also those neither made nor written for this time, such as '30 d'.")
]
IfNotExists = Annotated[bool, typer.Option("--if-not-exists", help="Leave an existing branch as it is.")]
IfExists = Annotated[bool, typer.Option("--if-exists", help="Succeed where there is no such branch.")]


def create(  # noqa: PLR0917  # typer's arguments are the command line's
    table: TableName,
    branch: Name,
    snapshot_id: OfSnapshotId = None,
    timestamp: OfTimestamp = None,
    of_tag: OfTag = None,
    empty: Empty = False,
    time_retained: TimeRetained = None,
    if_not_exists: IfNotExists = False,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Create a branch at the newest snapshot or at the one that an option names, or an empty branch."""
    found = find_table(table, warehouse)
    made = found.branches.create(
        branch,
        empty=empty,
        time_retained=time_retained,
        if_not_exists=if_not_exists,
        **state(snapshot_id, timestamp, of_tag),
    )
    began = "is empty" if made.snapshot_id is None else f"begins at snapshot {made.snapshot_id}"
    say(as_json, f"branch {made.name} {began}", **_fields(made))


def rename(
    table: TableName,
    branch: Name,
    new_name: Annotated[str, typer.Argument(metavar="NEW_NAME", help="Its new name.")],
    as_json: AsJson = False,  # noqa: ARG001  # prints only errors
    warehouse: Warehouse = HERE,
) -> None:
    """Give a branch another name."""
    find_table(table, warehouse).branches.rename(branch, new_name)


def delete(
    table: TableName,
    branch: Name,
    if_exists: IfExists = False,
    as_json: AsJson = False,  # noqa: ARG001  # likewise
    warehouse: Warehouse = HERE,
) -> None:
    """Delete a branch with its snapshots and tags; its files become orphans."""
    find_table(table, warehouse).branches.delete(branch, if_exists=if_exists)


def list_branches(table: TableName, as_json: AsJson = False, warehouse: Warehouse = HERE) -> None:
    """Print the branches, and where each began."""
    branches = find_table(table, warehouse).branches.list()
    if as_json:
        print_lines(to_json(_fields(branch)) for branch in branches)
    elif branches:
        rows = [[str("" if value is None else value) for value in _fields(branch).values()] for branch in branches]
        print_grid(["branch", "created (UTC)", "snapshot", "tag", "expires (UTC)"], rows, right=["snapshot"])


def expire(
    table: TableName, older_than: OlderThan = None, as_json: AsJson = False, warehouse: Warehouse = HERE
) -> None:
    """Delete the branches whose time is over, and print their names."""
    for name in find_table(table, warehouse).branches.expire(older_than=older_than):
        say(as_json, name, branch=name)


def fast_forward(
    table: TableName,
    branch: Name,
    renew_log: RenewLog = False,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Give the table what a branch got since it began; refused if the table has changed since."""
    _say(find_table(table, warehouse).branches.fast_forward(branch, renew_log=renew_log), as_json)


def merge(
    table: TableName,
    branch: Name,
    renew_log: RenewLog = False,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Give the table what a branch got since it began, replacing what the table got since."""
    _say(find_table(table, warehouse).branches.replace_newer(branch, renew_log=renew_log), as_json)


def replace_main(
    table: TableName,
    branch: Name,
    renew_log: RenewLog = False,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Like `merge`, and delete the branch."""
    _say(find_table(table, warehouse).branches.replace_main(branch, renew_log=renew_log), as_json)


def _say(snapshot: Snapshot, as_json: bool) -> None:
    say(as_json, f"the newest snapshot is {snapshot.id}", snapshot_id=snapshot.id)


def _fields(branch: Branch) -> dict[str, object]:
    return {
        "branch": branch.name,
        "create_time": utc_of(branch.created_millis),
        "snapshot_id": branch.snapshot_id,
        "tag": branch.tag,
        "expires_at": None if branch.expires_millis is None else utc_of(branch.expires_millis),
    }


_COMMANDS: dict[str, Callable[..., None]] = {
    "create": create,
    "rename": rename,
    "delete": delete,
    "list": list_branches,
    "expire": expire,
    "fast-forward": fast_forward,
    "merge": merge,
    "replace-main": replace_main,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)

"""`lakelog table tag`: the tags of a table."""

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
    OfWatermark,
    TableName,
    Warehouse,
    find_table,
    state,
)
from lakelog.cli.console.door import print_lines
from lakelog.cli.console.output import print_grid, say, to_json
from lakelog.common.timestamps import utc_of

if TYPE_CHECKING:
    from lakelog.filestore.metadata.snapshots import Tag

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="TAG", help="The tag's name; not a number.")]
TimeRetained = Annotated[
    str | None, typer.Option("--time-retained", help="Delete the tag when this has passed, such as '30 d'.")
]
InBranch = Annotated[str | None, typer.Option("--branch", help="A tag of this branch.")]


def create(  # noqa: PLR0917  # typer's arguments are the command line's
    table: TableName,
    tag: Name,
    snapshot_id: OfSnapshotId = None,
    timestamp: OfTimestamp = None,
    of_tag: OfTag = None,
    watermark: OfWatermark = None,
    branch: InBranch = None,
    time_retained: TimeRetained = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Name the newest snapshot, or the one that options name, and keep it."""
    which = state(snapshot_id, timestamp, of_tag, watermark)
    made = find_table(table, warehouse, branch=branch).tags.create(tag, time_retained=time_retained, **which)
    _say(made, as_json)


def replace(  # noqa: PLR0917  # likewise
    table: TableName,
    tag: Name,
    snapshot_id: OfSnapshotId = None,
    timestamp: OfTimestamp = None,
    of_tag: OfTag = None,
    watermark: OfWatermark = None,
    branch: InBranch = None,
    time_retained: TimeRetained = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Move an existing tag to another snapshot."""
    which = state(snapshot_id, timestamp, of_tag, watermark)
    _say(find_table(table, warehouse, branch=branch).tags.replace(tag, time_retained=time_retained, **which), as_json)


def rename(  # noqa: PLR0917  # likewise
    table: TableName,
    tag: Name,
    new_name: Annotated[str, typer.Argument(metavar="NEW_NAME", help="Its new name.")],
    branch: InBranch = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Give a tag another name."""
    _say(find_table(table, warehouse, branch=branch).tags.rename(tag, new_name), as_json)


def delete(
    table: TableName,
    tag: Name,
    branch: InBranch = None,
    as_json: AsJson = False,  # noqa: ARG001  # prints only errors
    warehouse: Warehouse = HERE,
) -> None:
    """Delete a tag and the files that nothing else needs."""
    find_table(table, warehouse, branch=branch).tags.delete(tag)


def list_tags(table: TableName, branch: InBranch = None, as_json: AsJson = False, warehouse: Warehouse = HERE) -> None:
    """Print the tags, sorted by their snapshots."""
    tags = find_table(table, warehouse, branch=branch).tags.list()
    if as_json:
        print_lines(to_json(_fields(tag)) for tag in tags)
    elif tags:
        rows = [[str("" if value is None else value) for value in _fields(tag).values()] for tag in tags]
        print_grid(["tag", "snapshot", "committed (UTC)", "rows in files", "expires"], rows, right=["snapshot"])


def expire(table: TableName, branch: InBranch = None, as_json: AsJson = False, warehouse: Warehouse = HERE) -> None:
    """Delete the tags whose time is over, and print their names."""
    for name in find_table(table, warehouse, branch=branch).tags.expire():
        say(as_json, name, tag=name)


def _say(tag: Tag, as_json: bool) -> None:
    say(as_json, f"tag {tag.name} keeps snapshot {tag.snapshot.id}", **_fields(tag))


def _fields(tag: Tag) -> dict[str, object]:
    return {
        "tag": tag.name,
        "snapshot_id": tag.snapshot.id,
        "commit_time": utc_of(tag.snapshot.time_millis),
        "record_count": tag.snapshot.total_record_count,
        "expires_at": None if tag.expires_at is None else f"{tag.expires_at:%Y-%m-%d %H:%M:%S}",
    }


_COMMANDS: dict[str, Callable[..., None]] = {
    "create": create,
    "replace": replace,
    "rename": rename,
    "delete": delete,
    "list": list_tags,
    "expire": expire,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)

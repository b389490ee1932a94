"""`lakelog table compact|expire|drop-partitions|remove-orphan-files|consumers|find-commit`: upkeep without Spark."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from lakelog.cli.console.arguments import HERE, AsJson, TableName, Warehouse, find_table
from lakelog.cli.console.door import print_lines
from lakelog.cli.console.output import progress, say, to_json


def compact(
    table: TableName,
    full: Annotated[bool, typer.Option("--full", help="Merge all files, not only those that are due.")] = False,
    where: Annotated[
        str | None, typer.Option(help="Only the partitions that meet a condition on their columns.")
    ] = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Merge the files that are due by the table's options."""
    found = find_table(table, warehouse)
    with progress(f"compacting {found.name}"):
        snapshot = found.compact(full=full, where=where)
    number = None if snapshot is None else snapshot.id
    say(as_json, "nothing to merge" if number is None else f"snapshot {number}", snapshot_id=number)


def expire(  # noqa: PLR0917  # typer's arguments are the command line's
    table: TableName,
    retain_min: Annotated[int | None, typer.Option(min=1, help="Keep at least this many snapshots.")] = None,
    retain_max: Annotated[int | None, typer.Option(min=1, help="Keep at most this many snapshots.")] = None,
    older_than: Annotated[
        str | None, typer.Option(help="Keep younger ones, such as 2 h, within these numbers.")
    ] = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Delete old snapshots and the files that only they name.

    By default the table's options decide. In a log, records are deleted too that are older than log.retention and that
    no snapshot and no stream needs.
    """
    found = find_table(table, warehouse)
    with progress(f"expiring snapshots of {found.name}"):
        expired = found.upkeep.expire_snapshots(retain_max=retain_max, retain_min=retain_min, older_than=older_than)
    if as_json:
        print_lines([to_json(asdict(expired))])
        return
    changes = f", the changes of {len(expired.changelog_ids)} older ones" if expired.changelog_ids else ""
    counts = f"{expired.data_files} data files and {expired.metadata_files} metadata files"
    print_lines([f"{len(expired.snapshot_ids)} snapshots{changes}, {counts} deleted"])
    print_lines(
        f"records of the log deleted in bucket {bucket}: those before offset {offset}"
        for bucket, offset in sorted(expired.log_starts.items())
    )


def remove_orphan_files(  # noqa: PLR0917  # likewise
    table: TableName,
    older_than: Annotated[str, typer.Option(help="Only files that were not changed for this long.")] = "1 d",
    delete: Annotated[bool, typer.Option("--delete", help="Delete them; without it they are only listed.")] = False,
    allow_young: Annotated[
        bool, typer.Option("--allow-young", help="Take an age below 1 h: no writer may run then.")
    ] = False,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """List or delete orphan files.

    No snapshot, changelog, tag, branch or record of the log names them; writers that were cut off have left them.
    """
    opened = find_table(table, warehouse)
    with progress(f"orphan files of {opened.name}"):
        found = opened.upkeep.remove_orphan_files(older_than=older_than, dry_run=not delete, allow_young=allow_young)
    print_lines(to_json(asdict(file)) if as_json else file.path for file in found.files)
    print_lines(to_json({"path": f"{folder}/"}) if as_json else f"{folder}/" for folder in found.folders)
    if not as_json:
        done = "deleted" if delete else "would be deleted; give --delete"
        print_lines([f"{len(found.files)} files of {found.size_bytes} bytes and {len(found.folders)} folders {done}"])


def consumers(table: TableName, as_json: AsJson = False, warehouse: Warehouse = HERE) -> None:
    """Print the consumers and the next snapshot of each."""
    for consumer in find_table(table, warehouse).consumers.list():
        fields = {"id": consumer.consumer_id, "next_snapshot": consumer.next_snapshot, "is_own": consumer.is_own}
        remark = " (lakelog's own, not a reader: see the guide)" if consumer.is_own else ""
        say(as_json, f"{consumer.consumer_id} {consumer.next_snapshot}{remark}", **fields)


def reset_consumer(
    table: TableName,
    consumer_id: Annotated[str, typer.Argument(metavar="CONSUMER", help="Its id.")],
    next_snapshot: Annotated[int, typer.Option("--next", help="The first snapshot that it will read.")],
    as_json: AsJson = False,  # noqa: ARG001  # prints only errors
    warehouse: Warehouse = HERE,
) -> None:
    """Set the snapshot that a consumer reads next."""
    find_table(table, warehouse).consumers.reset(consumer_id, next_snapshot)


def delete_consumer(
    table: TableName,
    consumer_id: Annotated[str, typer.Argument(metavar="CONSUMER", help="Its id.")],
    as_json: AsJson = False,  # noqa: ARG001  # likewise
    warehouse: Warehouse = HERE,
) -> None:
    """Delete a consumer; what it has not read may expire."""
    find_table(table, warehouse).consumers.delete(consumer_id)


def new_identity(table: TableName, as_json: AsJson = False, warehouse: Warehouse = HERE) -> None:
    """Give a copied table a new uuid and a new log.

    Use it also for a table that has lost lakelog's state of its writers.
    """
    renewed = find_table(table, warehouse).upkeep.new_identity()
    say(as_json, f"table {renewed.path} has the uuid {renewed.uuid}", path=renewed.path, uuid=renewed.uuid)


def drop_partitions(
    table: TableName,
    where: Annotated[str, typer.Option(help="A condition on partition columns, such as \"day < '2026-01-31'\".")],
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Delete the partitions that meet a condition.

    Older snapshots still show them.
    """
    snapshot = find_table(table, warehouse).upkeep.drop_partitions(where)
    number = None if snapshot is None else snapshot.id
    say(as_json, "no partition meets the condition" if number is None else f"snapshot {number}", snapshot_id=number)


def rescale(
    table: TableName,
    buckets: Annotated[int, typer.Option(help="The number of buckets from now on.")],
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Change the number of buckets; every row is rewritten.

    A log continues in a new topic: before, stop the streams that write; afterwards, restart them and those that read.
    """
    rescaled = find_table(table, warehouse).upkeep.rescale(buckets).schema
    say(as_json, f"{rescaled.bucket_count} buckets", bucket_count=rescaled.bucket_count)


def find_commit(
    table: TableName,
    uuid: Annotated[str, typer.Argument(metavar="UUID", help="The commit's uuid, as its error names it.")],
    snapshot_id: Annotated[
        int | None, typer.Option(help="The snapshot that its error names: makes the answer certain.")
    ] = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Print whether a commit without an answer took effect."""
    found = find_table(table, warehouse).upkeep.find_commit(uuid, snapshot_id=snapshot_id)
    if as_json:
        text = to_json(asdict(found))
    elif found.snapshot_id is not None:
        text = f"committed as snapshot {found.snapshot_id}"
    elif found.expired_up_to is not None:
        text = f"not knowable: snapshots up to {found.expired_up_to} have expired; check for the rows"
    elif found.is_open:
        text = (
            "not committed so far; while no later snapshot exists, a pending request may still create it: run this "
            "again after a minute" + ("" if snapshot_id is not None else ", with --snapshot-id")
        )
    else:
        text = "not committed: write again"
    print_lines([text])

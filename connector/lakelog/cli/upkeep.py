"""`lakelog table compact|expire|drop-partitions|remove-orphan-files|consumers|find-commit`: upkeep without Spark."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from lakelog.cli.arguments import HERE, AsJson, TableName, Warehouse, find_table


def compact(
    table: TableName,
    full: Annotated[bool, typer.Option("--full", help="Merge everything, not only what is due.")] = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Merge files: what is due by the table's options."""
    snapshot = find_table(table, warehouse).compact(full=full)
    typer.echo("nothing to merge" if snapshot is None else f"snapshot {snapshot.id}")


def expire(
    table: TableName,
    retain_min: Annotated[int | None, typer.Option(min=1, help="Keep so many snapshots at least.")] = None,
    retain_max: Annotated[int | None, typer.Option(min=1, help="Keep so many snapshots at most.")] = None,
    older_than: Annotated[
        str | None, typer.Option(help="Keep younger ones, such as 2 h; in reach of the numbers.")
    ] = None,
    warehouse: Warehouse = HERE,
) -> None:
    """Delete old snapshots and the files that only they show; by the table's options where none are given.

    Of a table with a log then also the records that are older than log.retention and needed by nobody.
    """
    expired = find_table(table, warehouse).expire_snapshots(
        retain_max=retain_max, retain_min=retain_min, older_than=older_than
    )
    changes = f", the changes of {len(expired.changelog_ids)} older ones" if expired.changelog_ids else ""
    typer.echo(
        f"{len(expired.snapshot_ids)} snapshots{changes}, {expired.data_files} data files and {expired.metadata_files} "
        "metadata files deleted"
    )
    for bucket, offset in sorted(expired.log_starts.items()):
        typer.echo(f"records of the log deleted in bucket {bucket}: those before offset {offset}")


def remove_orphan_files(  # noqa: PLR0917  # typer's arguments are the command line's
    table: TableName,
    older_than: Annotated[str, typer.Option(help="Only files that were not changed for so long.")] = "1 d",
    delete: Annotated[bool, typer.Option("--delete", help="Delete them; without it they are only named.")] = False,
    allow_young: Annotated[
        bool, typer.Option("--allow-young", help="Take an age below 1 h: then nobody may be writing.")
    ] = False,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Name the files that no snapshot, changelog, tag, branch or log names, or delete them."""
    found = find_table(table, warehouse).remove_orphan_files(
        older_than=older_than, dry_run=not delete, allow_young=allow_young
    )
    for file in found.files:
        fields = {"path": file.path, "size_bytes": file.size_bytes, "modified_millis": file.modified_millis}
        typer.echo(json.dumps(fields) if as_json else file.path)
    for folder in found.folders:
        typer.echo(json.dumps({"path": f"{folder}/"}) if as_json else f"{folder}/")
    if not as_json:
        done = "deleted" if delete else "would be deleted; say --delete"
        typer.echo(f"{len(found.files)} files of {found.size_bytes} bytes and {len(found.folders)} folders {done}")


def consumers(table: TableName, as_json: AsJson = False, warehouse: Warehouse = HERE) -> None:
    """Print the consumers, and for each the first snapshot that it has not read."""
    for consumer in find_table(table, warehouse).consumers():
        fields = {"id": consumer.consumer_id, "next_snapshot": consumer.next_snapshot, "is_own": consumer.is_own}
        remark = " (lakelog's own, not a reader: see the guide)" if consumer.is_own else ""
        typer.echo(json.dumps(fields) if as_json else f"{consumer.consumer_id} {consumer.next_snapshot}{remark}")


def reset_consumer(
    table: TableName,
    consumer_id: Annotated[str, typer.Argument(metavar="CONSUMER")],
    next_snapshot: Annotated[int, typer.Option("--next", help="The first snapshot that it will read.")],
    warehouse: Warehouse = HERE,
) -> None:
    """Let a consumer read from a snapshot on, back or ahead."""
    find_table(table, warehouse).reset_consumer(consumer_id, next_snapshot)


def delete_consumer(
    table: TableName,
    consumer_id: Annotated[str, typer.Argument(metavar="CONSUMER")],
    warehouse: Warehouse = HERE,
) -> None:
    """Forget a consumer: what it has not read may expire."""
    find_table(table, warehouse).delete_consumer(consumer_id)


def new_identity(table: TableName, warehouse: Warehouse = HERE) -> None:
    """Give a copied table an identity and a log of its own, or one that has lost what it knew of its writers."""
    renewed = find_table(table, warehouse).new_identity()
    typer.echo(f"table {renewed.path} has the uuid {renewed.uuid}")


def drop_partitions(
    table: TableName,
    where: Annotated[str, typer.Option(help="A condition on partition columns, such as \"day < DATE '2026-01-31'\".")],
    warehouse: Warehouse = HERE,
) -> None:
    """Delete the partitions that meet a condition. Older snapshots still show them."""
    snapshot = find_table(table, warehouse).drop_partitions(where)
    typer.echo("no partition meets the condition" if snapshot is None else f"snapshot {snapshot.id}")


def rescale(
    table: TableName,
    buckets: Annotated[int, typer.Option(help="The number of buckets from now on.")],
    warehouse: Warehouse = HERE,
) -> None:
    """Give a table without a log another number of buckets: every row is written anew."""
    rescaled = find_table(table, warehouse).rescale(buckets)
    typer.echo(f"{rescaled.schema.bucket_count} buckets")


def find_commit(
    table: TableName,
    uuid: Annotated[str, typer.Argument(metavar="UUID", help="The commit's uuid, as its error names it.")],
    snapshot_id: Annotated[
        int | None, typer.Option(help="The snapshot that it would be, as its error names it: makes the answer certain.")
    ] = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Say what became of a commit that ended without an answer."""
    found = find_table(table, warehouse).find_commit(uuid, snapshot_id=snapshot_id)
    if as_json:
        typer.echo(json.dumps(asdict(found)))
    elif found.snapshot_id is not None:
        typer.echo(f"committed as snapshot {found.snapshot_id}")
    elif found.expired_up_to is not None:
        typer.echo(f"not knowable: snapshots up to {found.expired_up_to} have expired; look for the rows")
    elif found.is_open:
        typer.echo(
            "not committed so far; while no later snapshot is there, a request under way may still create it: ask "
            "again after a minute" + ("" if snapshot_id is not None else ", with --snapshot-id")
        )
    else:
        typer.echo("not committed: write again")

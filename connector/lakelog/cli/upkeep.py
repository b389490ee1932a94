"""`lakelog table compact|expire|drop-partitions`: keeping a table in order, without Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from lakelog.cli.arguments import HERE, TableName, Warehouse, find_table
from lakelog.common.errors import InvalidRequestError
from lakelog.common.options import parse_duration_millis
from lakelog.filestore.expiry import Retention


def compact(
    table: TableName,
    full: Annotated[bool, typer.Option("--full", help="Merge everything, not only what is due.")] = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Merge files: what is due by the table's options."""
    snapshot = find_table(table, warehouse).file_store.compact(full=full)
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
    """Delete old snapshots and the files that only they show; by the table's options where none are given."""
    store = find_table(table, warehouse).file_store
    retention = Retention.of(store)
    if retain_min is not None:
        retention = replace(retention, count_min=retain_min)
    if retain_max is not None:
        retention = replace(retention, count_max=retain_max)
    if retention.count_max < retention.count_min:
        raise InvalidRequestError(
            f"at most {retention.count_max} snapshots and at least {retention.count_min} cannot both be kept; "
            "give --retain-min too"
        )
    if older_than is not None:
        retention = replace(retention, age_millis=_duration(older_than))
    expired = store.expire_snapshots(retention=retention)
    typer.echo(
        f"{len(expired.snapshot_ids)} snapshots, {expired.data_files} data files and {expired.metadata_files} "
        "metadata files deleted"
    )


def drop_partitions(
    table: TableName,
    where: Annotated[str, typer.Option(help="A condition on partition columns, such as \"day < DATE '2026-01-31'\".")],
    warehouse: Warehouse = HERE,
) -> None:
    """Delete the partitions that meet a condition. Older snapshots still show them."""
    snapshot = find_table(table, warehouse).file_store.drop_partitions(where)
    typer.echo("no partition meets the condition" if snapshot is None else f"snapshot {snapshot.id}")


def _duration(text: str) -> int:
    try:
        return parse_duration_millis(text)
    except ValueError as error:
        raise InvalidRequestError(f"--older-than is {text!r}: {error}; expected a form such as 2 h") from error

"""`lakelog log`: the commands of a log. Those that check and repair it are here; others are made of declared verbs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from lakelog.cli.console.arguments import HERE, AsJson, TableName, Warehouse, find_table
from lakelog.cli.console.door import print_lines
from lakelog.cli.console.output import PROBLEM_CODE, say
from lakelog.cli.console.verb_commands import add_verbs
from lakelog.cli.logs import log_follow
from lakelog.common.errors import InvalidRequestError

if TYPE_CHECKING:
    from lakelog.catalog import Table
    from lakelog.protocol.access import TableLog


def log_app(words: Sequence[str] | None) -> typer.Typer:
    """The commands of logs: those that `words` name, and of the others the names; all of them without words."""
    app = typer.Typer(no_args_is_help=True)
    for run in (log_follow.tail, check, repair):
        app.command()(run)
    add_verbs(app, "log", words)
    return app


def check(table: TableName, as_json: AsJson = False, warehouse: Warehouse = HERE) -> None:
    """Compare the topic with the newest snapshot.

    Exit code 3 when something is wrong.
    """
    opened, log = _logged(table, warehouse)
    from lakelog.protocol.upkeep import check_log  # needs the Kafka client

    report = check_log(opened.store, log)
    if report.deletes_by:
        say(as_json, log.deletion_warning(report.deletes_by), topic=report.topic, deletes_by=dict(report.deletes_by))
    for bucket in report.buckets:
        held = f"the log holds offsets {bucket.log_start} to {bucket.high_watermark} (exclusive)"
        problem = bucket.problem
        text = problem or f"{held}, the newest snapshot ends at {bucket.offset}"
        say(
            as_json,
            f"bucket {bucket.bucket}: {text}",
            bucket=bucket.bucket,
            offset=bucket.offset,
            log_start=bucket.log_start,
            high_watermark=bucket.high_watermark,
            problem=problem,
        )
    if not report.is_sound:
        if not as_json:
            print_lines([f"`lakelog log repair {opened.path}` repairs what can be repaired, and prints what is lost"])
        raise typer.Exit(PROBLEM_CODE)


def repair(table: TableName, as_json: AsJson = False, warehouse: Warehouse = HERE) -> None:
    """Repair a log, and print which offsets are lost.

    Afterwards Kafka itself deletes no records, and writers continue where records are missing. Exit code 3 when a
    problem is left that cannot be repaired.
    """
    opened, log = _logged(table, warehouse)
    from lakelog.protocol.upkeep import repair_log  # needs the Kafka client

    done = repair_log(opened.store, log)
    if done.settings:
        old = ", ".join(f"{key}={value}" for key, value in sorted(done.settings.items()))
        say(
            as_json,
            f"topic {log.topic}: {old} taken back; Kafka deletes nothing any more",
            settings=dict(done.settings),
        )
    for bucket in done.buckets:
        first, end = bucket.lost
        if bucket.is_in_snapshots:
            text = (
                f"offsets {first} to {end} (exclusive) are lost in the log and held by snapshots; streams that have not"
                " read them must start with a new checkpoint location"
            )
        elif bucket.has_lost:
            text = (
                f"offsets {first} to {end} (exclusive) are lost: {end - first} records at most, of batches that were"
                " logged and in no snapshot yet. A stream that still has such a batch in its checkpoint writes it again"
                " when it is started; streams that had read it see its rows twice then. Files that no snapshot names,"
                " of such batches or of attempts that were cut off:"
            )
        else:
            text = f"offsets {first} to {end} (exclusive) held markers and aborted records only; nothing is lost"
        say(
            as_json,
            f"bucket {bucket.bucket}: {text}",
            bucket=bucket.bucket,
            lost=[first, end] if bucket.has_lost or bucket.is_in_snapshots else None,
            is_in_snapshots=bucket.is_in_snapshots,
            files=[file.path for file in bucket.files],
        )
        if not as_json:
            print_lines(f"  {file.path} ({file.size_bytes} bytes)" for file in bucket.files)
    for left in done.left:
        say(as_json, f"bucket {left.bucket}: {left.problem}", bucket=left.bucket, problem=left.problem)
    if not as_json:
        made = "" if done.snapshot_id is None else f", snapshot {done.snapshot_id}"
        has_done = bool(done.buckets or done.settings)
        nothing = f"{len(done.left)} problems are left" if done.left else "nothing to repair"
        print_lines([f"{len(done.buckets)} buckets repaired{made}" if has_done else nothing])
    if done.left:
        raise typer.Exit(PROBLEM_CODE)


def _logged(table: str, warehouse: str) -> tuple[Table, TableLog]:
    opened = find_table(table, warehouse)
    if opened.log is None:
        raise InvalidRequestError(f"table {opened.name} has no log")
    from lakelog.protocol.access import require_kafka_client

    require_kafka_client()
    return opened, opened.log

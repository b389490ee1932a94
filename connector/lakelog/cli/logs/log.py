"""`lakelog log`: check, repair, add, renew and remove a table's log; `log_follow` has the commands that show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakelog.cli.console.arguments import HERE, AsJson, TableName, Warehouse, find_table, key_value
from lakelog.cli.console.door import print_lines
from lakelog.cli.console.output import PROBLEM_CODE, say
from lakelog.cli.logs import log_follow
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed

if TYPE_CHECKING:
    from lakelog.catalog import Table
    from lakelog.protocol.access import TableLog

app = typer.Typer(no_args_is_help=True)
app.command()(log_follow.tail)
app.command()(log_follow.verify)
app.command()(log_follow.transactions)


@app.command()
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


@app.command()
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


@app.command()
def abandon(
    table: TableName,
    user: Annotated[str, typer.Argument(help="The commit user, as the stream's error names it.")],
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Let aligned streams stop waiting for a writer.

    For a writer that never comes back, and streams with stream.align=snapshot. Nothing is dropped: the part of its
    batch that is in the table stays. If the writer comes back, it completes the batch in a later snapshot.
    """
    opened = find_table(table, warehouse)
    snapshot = opened.log_store.abandon_writer(user)
    say(
        as_json,
        f"{opened.name}: streams no longer wait for the unfinished batch of {user}, from snapshot {snapshot.id} on",
        table=opened.name,
        user=user,
        snapshot=snapshot.id,
    )


Options = Annotated[list[str] | None, typer.Option("--option", "-o", help="KEY=VALUE of the log; repeat.")]
SkipUnreadable = Annotated[
    bool, typer.Option("--skip-unreadable", help="Leave out records of other programs, and what follows them.")
]
KeepTopic = Annotated[bool, typer.Option("--keep-topic", help="Leave the topic in Kafka.")]


@app.command()
def add(table: TableName, option: Options = None, as_json: AsJson = False, warehouse: Warehouse = HERE) -> None:
    """Give a table a log.

    It begins at the newest snapshot. Restart the streams that write or read the table.
    """
    changed = find_table(table, warehouse).log_store.add(dict(key_value(text) for text in option or ()))
    _say_log(changed, as_json=as_json)


@app.command()
def remove(
    table: TableName,
    keep_topic: KeepTopic = False,
    skip_unreadable: SkipUnreadable = False,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Take a log into its table's files and delete the topic.

    Before, stop the streams that write the table; afterwards, restart those that read it.
    """
    changed = find_table(table, warehouse).log_store.remove(keep_topic=keep_topic, skip_unreadable=skip_unreadable)
    say(as_json, f"table {changed.name} has no log", name=changed.name, topic=None)


@app.command()
def renew(
    table: TableName,
    keep_topic: KeepTopic = False,
    skip_unreadable: SkipUnreadable = False,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Create a new topic for a table's log.

    For a topic that was lost. It begins at the newest snapshot. Restart the streams that write or read the table.
    """
    changed = find_table(table, warehouse).log_store.renew(keep_topic=keep_topic, skip_unreadable=skip_unreadable)
    _say_log(changed, as_json=as_json)


@app.command()
def drop_ended(
    table: TableName,
    older_than: Annotated[
        str | None, typer.Option(help="How long ago they ended, such as '2 h'; by default log.retention.")
    ] = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Delete the older topics of a table.

    A rescale leaves the older topic for streams that have not read it to its end.
    """
    opened = find_table(table, warehouse)
    dropped = opened.log_store.drop_ended(older_than=older_than)
    text = f"deleted {listed(dropped)}" if dropped else "no topic to delete"
    say(as_json, f"table {opened.name}: {text}", name=opened.name, topics=dropped)


def _say_log(table: Table, *, as_json: bool) -> None:
    assert table.log is not None
    topic, topic_id = table.log.topic, table.log.topic_id
    say(as_json, f"table {table.name} has the topic {topic}", name=table.name, topic=topic, topic_id=topic_id)


def _logged(table: str, warehouse: str) -> tuple[Table, TableLog]:
    opened = find_table(table, warehouse)
    if opened.log is None:
        raise InvalidRequestError(f"table {opened.name} has no log")
    from lakelog.protocol.access import require_kafka_client

    require_kafka_client()
    return opened, opened.log

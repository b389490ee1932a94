"""`lakelog ingest` and `lakelog dead-letter`: take changes that others write to Kafka into tables, by a local Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any  # Any: a Spark session, whose types only lakelog.spark imports

import typer

from lakelog.cli.console.arguments import HERE, AsJson, TableName, Warehouse, find_table
from lakelog.cli.console.output import say
from lakelog.common.errors import InvalidRequestError, LakelogError

letters = typer.Typer(no_args_is_help=True)

Checkpoint = Annotated[
    str, typer.Option("--checkpoint", help="Folder of the query's progress; the same one goes on from there.")
]
Servers = Annotated[
    str | None,
    typer.Option("--bootstrap-servers", "-b", help="host:port of the Kafka, with commas; else by environment."),
]
Profile = Annotated[str | None, typer.Option("--profile", help="Profile with the settings of the Kafka client.")]
DeadLetterTable = Annotated[
    str | None, typer.Option("--dead-letter-table", help="Table of the dead letters; <table>_dead_letters without it.")
]
MergeSchema = Annotated[bool, typer.Option("--merge-schema", help="Add columns that the table lacks, nullable.")]
DropUnknownMembers = Annotated[
    bool, typer.Option("--drop-unknown-members", help="Leave out members that nested columns lack, and count them.")
]
IgnoreColumn = Annotated[
    list[str] | None, typer.Option("--ignore-column", help="Leave out this column of the records; may be repeated.")
]
MaxRecordBytes = Annotated[str, typer.Option("--max-record-bytes", help="Larger records are bad.")]
BinaryMode = Annotated[
    str, typer.Option("--binary-handling-mode", help="How the connector writes binaries: bytes, base64 or hex.")
]
DecimalMode = Annotated[
    str, typer.Option("--decimal-handling-mode", help="How the connector writes decimals: precise, double or string.")
]
TimeMode = Annotated[
    str, typer.Option("--time-precision-mode", help="How the connector writes times, by its option of this name.")
]
TimeUnit = Annotated[
    list[str] | None,
    typer.Option("--time-unit", help="Unit of the numbers in a column, as at=ms (s, ms, us or ns); may be repeated."),
]
PartitionChanges = Annotated[
    str,
    typer.Option("--partition-changes", help="Key columns that record keys lack: change as before says, or never."),
]
OnError = Annotated[str, typer.Option("--on-error", help="What a bad record does: fail, skip or dead-letter.")]
StartingOffsets = Annotated[
    str, typer.Option("--starting-offsets", help="Where a new checkpoint begins: earliest or latest.")
]
BatchRecords = Annotated[
    int, typer.Option("--max-offsets-per-trigger", min=1, help="About how many records a batch has at most.")
]
ContinueOnDataLoss = Annotated[
    bool, typer.Option("--continue-on-data-loss", help="Go on where Kafka has deleted records that were not read.")
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with new records until interrupted.")]
Master = Annotated[str, typer.Option("--master", help="Master URL of Spark.")]
LOCAL = "local[*]"
RECORD_SIZE = "16 mb"


def ingest(  # noqa: PLR0917  # typer's arguments are the command line's
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The Debezium topic.")],
    table: TableName,
    checkpoint: Checkpoint,
    bootstrap_servers: Servers = None,
    profile: Profile = None,
    on_error: OnError = "fail",
    dead_letter_table: DeadLetterTable = None,
    merge_schema: MergeSchema = False,
    drop_unknown_members: DropUnknownMembers = False,
    ignore_column: IgnoreColumn = None,
    starting_offsets: StartingOffsets = "earliest",
    max_offsets_per_trigger: BatchRecords = 500_000,
    max_record_bytes: MaxRecordBytes = RECORD_SIZE,
    binary_handling_mode: BinaryMode = "bytes",
    decimal_handling_mode: DecimalMode = "precise",
    time_precision_mode: TimeMode = "adaptive",
    time_unit: TimeUnit = None,
    partition_changes: PartitionChanges = "before",
    continue_on_data_loss: ContinueOnDataLoss = False,
    follow: Follow = False,
    master: Master = LOCAL,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Take the changes of a Debezium topic into a table.

    Each change is taken in once. Takes what the topic has now, and with --follow what arrives later. Runs a Spark on
    this machine; `lakelog.spark.ingest` does the same in a session of yours.
    """
    opened = find_table(table, warehouse)
    from lakelog.spark import ingest as start

    query = start(
        _session(master),
        topic,
        opened,
        checkpoint_location=checkpoint,
        bootstrap_servers=bootstrap_servers,
        kafka={} if profile is None else {"profile": profile},
        on_error=on_error,
        dead_letter_table=dead_letter_table,
        merge_schema=merge_schema,
        drop_unknown_members=drop_unknown_members,
        ignore_columns=ignore_column or (),
        starting_offsets=starting_offsets,
        max_offsets_per_trigger=max_offsets_per_trigger,
        max_record_bytes=max_record_bytes,
        binary_handling_mode=binary_handling_mode,
        decimal_handling_mode=decimal_handling_mode,
        time_precision_mode=time_precision_mode,
        time_units=_units(time_unit),
        partition_changes=partition_changes,
        fail_on_data_loss=not continue_on_data_loss,
        available_now=not follow,
    )
    _wait_for(query.awaitTermination, query.stop)
    newest = find_table(table, warehouse).snapshot()
    _say_taken(topic, opened.name, None if newest is None else newest.id, as_json=as_json)


def _units(given: list[str] | None) -> dict[str, str]:
    """Column or path -> unit. Raises InvalidRequestError for another form than `path=unit`."""
    found = {}
    for one in given or ():
        path, mark, unit = one.rpartition("=")
        if not mark:
            raise InvalidRequestError(f"--time-unit is {one!r}; expected a column and a unit, as in at=ms")
        found[path] = unit
    return found


def _say_taken(topic: str, table: str, snapshot_id: int | None, *, as_json: bool) -> None:
    text = f"topic {topic} is taken into {table}, snapshot {snapshot_id}"
    say(as_json, text, topic=topic, table=table, snapshot_id=snapshot_id)


def _wait_for(end: Callable[[], object], stop: Callable[[], None]) -> None:
    """Wait for the end of a query, or stop it at an interrupt. Raises the error of lakelog that ended the query."""
    try:
        end()
    except KeyboardInterrupt:
        stop()
    except Exception as error:
        raise _own(error) from error


@letters.command("replay")
def replay(  # noqa: PLR0917  # typer's arguments are the command line's
    table: TableName,
    checkpoint: Checkpoint,
    where: Annotated[str | None, typer.Option("--where", help="Only letters that meet this SQL condition.")] = None,
    dead_letter_table: DeadLetterTable = None,
    merge_schema: MergeSchema = False,
    drop_unknown_members: DropUnknownMembers = False,
    ignore_column: IgnoreColumn = None,
    max_record_bytes: MaxRecordBytes = RECORD_SIZE,
    binary_handling_mode: BinaryMode = "bytes",
    decimal_handling_mode: DecimalMode = "precise",
    time_precision_mode: TimeMode = "adaptive",
    time_unit: TimeUnit = None,
    partition_changes: PartitionChanges = "before",
    master: Master = LOCAL,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Take in dead letters again, after a repair.

    Letters that fit now are deleted. They become new changes: a row that has changed since is changed back.
    """
    opened = find_table(table, warehouse)
    spark = _session(master)
    from lakelog.spark import replay_dead_letters

    try:
        done = replay_dead_letters(
            spark,
            opened,
            checkpoint_location=checkpoint,
            dead_letter_table=dead_letter_table,
            where=where,
            merge_schema=merge_schema,
            drop_unknown_members=drop_unknown_members,
            ignore_columns=ignore_column or (),
            max_record_bytes=max_record_bytes,
            binary_handling_mode=binary_handling_mode,
            decimal_handling_mode=decimal_handling_mode,
            time_precision_mode=time_precision_mode,
            time_units=_units(time_unit),
            partition_changes=partition_changes,
        )
    except LakelogError:
        raise
    except Exception as error:
        raise _own(error) from error
    say(
        as_json,
        f"{done.accepted} of {done.letters} dead letters are taken into {opened.name}, {done.dead} are left",
        table=opened.name,
        letters=done.letters,
        accepted=done.accepted,
        dead=done.dead,
    )


def _session(master: str) -> Any:
    """A Spark for one command. Raises InvalidRequestError where PySpark, an extra, is not installed."""
    try:
        from lakelog.spark.session import start_session
    except ModuleNotFoundError as error:
        raise InvalidRequestError(
            f"ingest runs on Spark, and {error.name} is not installed; pip install 'lakelog[all]'"
        ) from error
    return start_session(master)


def _own(error: Exception) -> Exception:
    """The lakelog error inside a Spark error, or the Spark error itself."""
    from lakelog.spark import error_of

    return error_of(error) or error

"""The report at the end: what the kill did, the snapshots, the figures, the checks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table as Grid

from demo.changes import ChangeFile, ChangeStream
from demo.checks import Check
from demo.kill import KilledBatch
from demo.latency import MicroBatch, Spread
from demo.tables import SnapshotLine


def print_introduction(console: Console, stream: ChangeStream) -> None:
    """Print what the data is and what will be done with it."""
    flights, changes = f"{stream.flights.height:,}", f"{stream.change_count:,}"
    cancelled = stream.flights["dep_time"].null_count()
    unknown = stream.flights["air_time"].null_count() - cancelled
    console.print(
        f"""[bold]{flights} flights[/] from New York in 2013 as {changes} changes, in {len(stream.files)} files:
  scheduled a day before departure, then updated on departure and on arrival, with the old rows;
  {cancelled:,} without a departure time were cancelled: deleted;
  {unknown:,} that left have no air time, diverted or not recorded: they never arrive.
[bold]Two Spark jobs[/]: the writer streams the changes into the table flights (4 buckets, Kafka log),
  the reader reads flights while it is written, snapshot first, then log, and keeps flights_by_status.
"""
    )


def print_kill(console: Console, killed: KilledBatch, process_count: int) -> None:
    """Print in which step each bucket of the killed batch was, and how the restart went on."""
    console.print(
        f"\n[bold]SIGKILL[/] to the writer's {process_count} processes in the middle of batch {killed.identifier}:"
    )
    grid = Grid("bucket", "last step", "left behind", "after the restart", box=None, padding=(0, 2))
    for fate in killed.buckets:
        grid.add_row(str(fate.bucket), fate.last_step or "not begun", fate.left_behind, fate.then)
    console.print(grid)
    if killed.driver_step is not None:
        console.print(f"  The driver was at '{killed.driver_step}':\n  {killed.driver_left_behind}.")


def print_snapshots(console: Console, snapshots: Sequence[SnapshotLine]) -> None:
    """Print every snapshot with its batch and log offsets."""
    console.print("\n[bold]Snapshots of flights[/]: the micro-batch that made it, the records in its files,")
    console.print("and the offset of each bucket's log at which a reader of the snapshot goes on")
    buckets = sorted({bucket for snapshot in snapshots for bucket in snapshot.offsets})
    grid = Grid(box=None, padding=(0, 2, 0, 0))
    for name in ("id", "kind", "batch", "records", "time", *(f"offset {bucket}" for bucket in buckets)):
        grid.add_column(name, justify="left" if name in ("kind", "time") else "right", no_wrap=True)
    for line in snapshots:
        at = datetime.fromtimestamp(line.time_millis / 1000, UTC).astimezone()
        offsets = [f"{line.offsets.get(bucket, 0):,}" for bucket in buckets]
        grid.add_row(
            str(line.id), line.kind.value, str(line.batch), f"{line.record_count:,}", f"{at:%H:%M:%S}", *offsets
        )
    console.print(grid)


def print_figures(
    console: Console,
    *,
    batches: Sequence[MicroBatch],
    first_of_starts: Sequence[int],
    files: Sequence[ChangeFile],
    latency: Spread | None,
) -> None:
    """Print the writer's speed and the time from the log to the reader.

    `first_of_starts` are the batches that Spark runs while it still starts: they are printed apart.
    """
    console.print("\n[bold]Figures[/] (two Spark jobs and a broker share this machine)")
    changes = sum(files[batch.identifier].change_count for batch in batches)
    rows = sum(files[batch.identifier].row_count for batch in batches)
    seconds = sum(batch.seconds for batch in batches)
    times = Spread.of(batch.seconds for batch in batches if batch.identifier not in first_of_starts)
    if batches:
        console.print(
            f"  writer           {changes / seconds:,.0f} changes/s, {rows / seconds:,.0f} rows/s (old rows too)"
        )
    if times is not None:
        console.print(f"  micro-batch      median {times.median:.2f} s, max {times.max:.2f} s, of {times.count}")
    for batch in batches:
        if batch.identifier in first_of_starts:
            console.print(
                f"  after a start    {batch.seconds:.2f} s for batch {batch.identifier}: Spark loads its classes, "
                "and starts its Python workers"
            )
    if latency is None:
        console.print("  log to reader    too few batches came fresh from the log")
    else:
        console.print(
            f"""  log to reader    median {latency.median:.2f} s, p95 {latency.p95:.2f} s, max {latency.max:.2f} s, \
of {latency.count} batches:
                   from the commit of a batch's last transaction in the log until the
                   reader's foreachBatch function is called with all of it; without
                   what was there already when the reader started"""
        )


def print_checks(console: Console, checks: Sequence[Check]) -> None:
    """Print each comparison and how it came out."""
    console.print("\n[bold]Checks[/]")
    width = max(len(check.name) for check in checks)
    for check in checks:
        mark = "[green]ok[/]      " if check.has_passed else "[bold red]MISMATCH[/]"
        console.print(f"  {mark}  {check.name:<{width}}  ", end="")
        console.print(check.detail, markup=False, highlight=False, soft_wrap=True)

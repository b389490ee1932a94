"""What came of the run: every check, and the time from the log to the reader. Reads the tables without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from demo.changes import ChangeStream
from demo.checks import Check, check_counts, check_log, check_rows
from demo.latency import Offsets, Spread, log_to_reader_seconds
from demo.play import Played
from demo.steps import logged_at
from demo.tables import SnapshotLine, fold_log
from demo.truth import count_by_status, flights_at
from demo.workspace import FLIGHTS, FLIGHTS_BY_STATUS
from lakelog.catalog import Catalog
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind


def check_everything(
    catalog: Catalog,
    stream: ChangeStream,
    snapshots: Sequence[SnapshotLine],
    *,
    killed_batch: int,
) -> list[Check]:
    """Both tables, the log and the past against the truth from the CSV.

    The writer's batch n is file n of `stream`, which ends at a timestamp: so the true rows are known at every snapshot.
    """
    return list(_checks(catalog, stream, snapshots, killed_batch))


def _checks(
    catalog: Catalog,
    stream: ChangeStream,
    snapshots: Sequence[SnapshotLine],
    killed_batch: int,
) -> Iterator[Check]:
    table = catalog.load_table(FLIGHTS)
    truth = flights_at(stream.flights)
    rows = table.to_polars().collect()
    yield check_rows("flights = truth from the CSV", rows, truth)

    made_by = _appends_by_batch(snapshots)
    then = made_by[killed_batch]
    log, log_then = fold_log(table, [snapshots[-1].offsets, then.offsets])
    yield check_log("log of flights = its snapshot", log, rows)

    counts = catalog.load_table(FLIGHTS_BY_STATUS).to_polars().collect()
    yield check_counts("flights_by_status = truth", counts, count_by_status(truth))

    rows_then = table.to_polars(snapshot_id=then.id).collect()
    truth_then = flights_at(stream.flights, stream.files[killed_batch].last_at)
    yield check_rows(f"snapshot {then.id}, of the killed batch = truth then", rows_then, truth_then)
    yield check_log(f"log until snapshot {then.id} = that snapshot", log_then, rows_then)

    batch = len(stream.files) // 5
    millis = made_by[batch].time_millis
    text = datetime.fromtimestamp(millis / 1000, UTC).astimezone().isoformat(sep=" ", timespec="milliseconds")
    rows_then = table.to_polars(timestamp=millis).collect()
    yield check_rows(f"as of {text} = truth then", rows_then, flights_at(stream.flights, stream.files[batch].last_at))


def _appends_by_batch(snapshots: Sequence[SnapshotLine]) -> Mapping[int, SnapshotLine]:
    return {line.batch: line for line in snapshots if line.kind is CommitKind.APPEND}


def measure_latency(played: Played, snapshots: Sequence[SnapshotLine]) -> Spread | None:
    """Seconds from the commit of a batch's last transaction in the log to the reader's call that got all of it."""
    ends: dict[int, Offsets] = {batch: line.offsets for batch, line in _appends_by_batch(snapshots).items()}
    times = logged_at([*played.steps_before, *played.steps_after])
    return Spread.of(log_to_reader_seconds(times, ends, played.read).values())

"""Rescales of a test that die at an event, and the rows of a table by its logs, one a generation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import pytest

from lakelog.catalog import Table
from lakelog.common.types import RowKind
from lakelog.filestore.alter import rescale
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.metadata.snapshots.users import carried_properties
from lakelog.filestore.schema.schema_manager import SchemaManager
from lakelog.logstore.options import TOPIC_ID
from lakelog.protocol.access import topics
from lakelog.protocol.life import log_ending
from lakelog.protocol.state.log_generations import ended_generations, state_of_log
from tests.support.logs.promises import log_changes
from tests.support.logs.statements import Row, rows_in

Given = TypeVar("Given")

STEPS = (
    (log_ending, "log_mark"),
    (topics, "create_topic"),
    (SchemaManager, "create"),
    (rescale, "_rewritten"),
    (SnapshotManager, "create_new"),
    (TableCommit, "commit"),
)
"""What a rescale does in steps: each is an event before, and one after."""


def dying_rescale(table: Table, buckets: int, *, dies_at: int, die: Callable[[], None]) -> Table:
    """Rescale; at the event of this number, counted from 1, `die` is called. 0 is none."""
    events = 0

    def event() -> None:
        nonlocal events
        events += 1
        if events == dies_at:
            die()

    def counted(step: Callable[..., Given]) -> Callable[..., Given]:
        def run(*arguments: object, **named: object) -> Given:
            event()
            done = step(*arguments, **named)
            event()
            return done

        return run

    with pytest.MonkeyPatch.context() as patched:
        for owner, name in STEPS:
            patched.setattr(owner, name, counted(getattr(owner, name)))
        return table.upkeep.rescale(buckets)


def generations(table: Table) -> Iterator[tuple[Table, int]]:
    """The table as it was with each of its logs, the oldest first, and the snapshot on which that log begins."""
    files = table.store
    ended = ended_generations(
        carried_properties(files.snapshots.latest(), files.snapshots).properties, where="the newest snapshot"
    )
    begins = [0, *(one.snapshot_id for one in ended)]
    schemas = {TOPIC_ID.of(one.options): one for one in map(files.schemas.get, files.schemas.list_ids())}
    topic_ids = [*(one.topic_id for one in ended), TOPIC_ID.of(files.schema.options)]
    for topic_id, begin in zip(topic_ids, begins, strict=True):
        yield Table(replace(files, schema=schemas[topic_id])), begin


def check_generations(table: Table, *, has_key: bool) -> int:
    """At every snapshot the fold of its log over the rows on which that log begins is the snapshot's rows.

    Gives the number of records in all logs.
    """
    count = 0
    for older, begin in generations(table):
        changes = [
            (bucket, offset, RowKind(kind), tuple(row.to_pylist()[0].values()))
            for bucket in range(older.store.bucket_count)
            for bucket, offset, kind, row in log_changes(older, bucket)
        ]
        count += len(changes)
        assert older.log is not None
        for snapshot in older.snapshots():
            properties = carried_properties(snapshot, older.store.snapshots).properties
            log = state_of_log(properties, where="a snapshot")
            if log is None or log.topic_id != older.log.topic_id:
                continue
            rows = rows_in(older, begin) if begin else Counter[Row]()
            for bucket, offset, kind, row in changes:
                if offset < log.position(bucket).offset:
                    apply(rows, kind, row, has_key=has_key)
            assert +rows == rows_in(older, snapshot.id), f"log and files differ at snapshot {snapshot.id}"
    return count


def apply(rows: Counter[Row], kind: RowKind, row: Row, *, has_key: bool) -> None:
    """Change rows by a record; with a key, the first column, an added row takes the place of the one before."""
    if has_key:
        for before in [one for one in rows if one[0] == row[0]]:
            del rows[before]
        if kind.is_add:
            rows[row] = 1
    else:
        rows[row] += 1 if kind.is_add else -1

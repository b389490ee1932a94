"""A table gets a log, loses it, and gets another one; calls that were cut off go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, SetOption, Table, open_table
from lakelog.common.errors import (
    ConflictError,
    CorruptDataError,
    InvalidRequestError,
    LakelogError,
    NotFoundError,
    OptionError,
    UnsupportedError,
)
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.encoding.bucket import bucket_of
from lakelog.filestore.metadata.snapshots.users import carried_properties
from lakelog.filestore.schema.schema_manager import SchemaManager
from lakelog.logstore.kafka.clients.topic import create_topic, delete_topic, describe_topic
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.life import log_ending
from lakelog.protocol.state.header import LogMark
from lakelog.protocol.state.log_generations import EndedGeneration, ended_generations
from lakelog.protocol.state.steps import Step
from lakelog.protocol.writing.driver import Verdict
from tests.support.kills.crashing_writer import InjectedCrash
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import await_deleted, log_of_table, topic_config_of
from tests.support.logs.promises import log_changes, read_headers
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration

UPSERTS = pa.array([0, 0], pa.int8())


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Catalog:
    return Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)


@pytest.fixture
def plain(catalog: Catalog) -> Table:
    """A table of two rows without a log."""
    made = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "2"})
    made.write(rows_of(0))
    return made


@pytest.fixture
def logged(catalog: Catalog) -> Table:
    """A table with a log, in which batch 0 of `job` is."""
    made = catalog.create_table(
        "db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "2", "log.system": "kafka"}
    )
    write(made, 0)
    return made


def rows_of(batch: int) -> pa.Table:
    """The rows `batch` and `batch` + 1."""
    return pa.table([pa.array([batch, batch + 1]), pa.array([batch] * 2, pa.int32())], schema=SCHEMA)


def write(table: Table, batch: int) -> Verdict:
    return LocalWriter(table, "job").write(batch, rows_of(batch), UPSERTS)


def content(table: Table) -> dict[int, int]:
    rows = open_table(table.path).to_arrow()
    return dict(zip(rows["id"].to_pylist(), rows["batch"].to_pylist(), strict=True))


def logged_ids(table: Table) -> set[int]:
    """The ids of the changes in the log that the table has now."""
    return {row["id"][0].as_py() for bucket in range(2) for _, _, _, row in log_changes(table, bucket)}


def ended(table: Table) -> list[EndedGeneration]:
    latest = table.store.snapshots.latest()
    return ended_generations(carried_properties(latest, table.store.snapshots).properties, where="the newest")


def die_at(step: Step) -> Callable[[Step, str, int, int | None], None]:
    def observe(at: Step, _user: str, _identifier: int, _bucket: int | None) -> None:
        if at is step:
            raise InjectedCrash

    return observe


class DiesInItsSecondBucket:
    """Dies before the second transaction is committed."""

    def __init__(self) -> None:
        self.commits = 0

    def __call__(self, step: Step, *_: object) -> None:
        self.commits += step is Step.COMMIT
        if self.commits == 2:
            raise InjectedCrash


def test_a_log_that_is_added_begins_at_the_newest_snapshot(plain: Table) -> None:
    changed = plain.log_store.add({"log.changelog-mode": "all", "log.compression": "zstd"})

    write(changed, 1)

    assert content(changed) == {0: 0, 1: 1, 2: 1}
    assert logged_ids(changed) == {1, 2}
    config = topic_config_of(changed)
    assert (config["compression.type"], config["cleanup.policy"], config["retention.ms"]) == ("zstd", "delete", "-1")
    assert describe_topic(kafka_topic(log_of_table(changed))).partition_count == 2
    assert [(one.topic_id, one.snapshot_id) for one in ended(changed)] == [("", 2)]


def test_a_table_without_snapshots_gets_a_log_too(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "2"})

    changed = table.log_store.add()

    write(changed, 0)
    assert content(changed) == {0: 0, 1: 0}
    with pytest.raises(ConflictError, match="has got a log since it was opened"):
        table.write(rows_of(7))


def test_writers_that_opened_a_table_before_it_got_a_log_are_refused(plain: Table) -> None:
    before = open_table(plain.path)
    changed = plain.log_store.add()

    with pytest.raises(ConflictError, match=r"has got a log since it was opened.* start the stream again"):
        before.write(rows_of(5))
    with pytest.raises(ConflictError, match="has got a log"):
        before.delete("id = 0")

    assert content(changed) == {0: 0, 1: 0}


def test_a_write_between_the_schema_and_the_first_snapshot_of_a_log_is_below_the_log(
    plain: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = open_table(plain.path)
    whole = TableCommit.commit
    is_first = iter([True])

    def commit(self: TableCommit, *arguments: object, **named: object) -> object:
        if next(is_first, False):
            before.write(rows_of(1))
        return whole(self, *arguments, **named)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(TableCommit, "commit", commit)
    changed = plain.log_store.add()

    write(changed, 4)
    assert content(changed) == {0: 0, 1: 1, 2: 1, 4: 4, 5: 4}
    assert logged_ids(changed) == {4, 5}


def test_an_addition_that_was_cut_off_refuses_writers_and_goes_on(
    plain: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object, **__: object) -> None:
        raise InjectedCrash

    with monkeypatch.context() as patched:
        patched.setattr(TableCommit, "commit", die)
        with pytest.raises(InjectedCrash):
            plain.log_store.add()
    half = open_table(plain.path)
    with pytest.raises(NotFoundError, match=r"was cut off: run it again \(`lakelog log add`"):
        write(half, 1)
    with pytest.raises(InvalidRequestError, match="was cut off: finish it with `lakelog log add`"):
        half.log_store.remove(force=True)

    changed = half.log_store.add()

    write(changed, 1)
    assert content(changed) == {0: 0, 1: 1, 2: 1}
    with pytest.raises(InvalidRequestError, match=r"has a log already, the topic db\.t\."):
        changed.log_store.add()


@pytest.mark.parametrize(
    ("options", "given", "error", "message"),
    [
        ({"bucket": "-1"}, {}, InvalidRequestError, "set bucket to a positive number"),
        ({"bucket": "1", "merge-engine": "first-row"}, {}, UnsupportedError, "does not keep the last row of a key"),
        ({"bucket": "1"}, {"log.sistem": "kafka"}, OptionError, "did you mean 'log.system'"),
        ({"bucket": "1"}, {"log.topic": "mine"}, OptionError, "is set by lakelog"),
        (
            {"bucket": "1"},
            {"log.consistency": "eventual", "log.changelog-mode": "all"},
            InvalidRequestError,
            "eventual",
        ),
        ({"bucket": "1"}, {"change-tracking.off-where": "id > 1"}, InvalidRequestError, "names id, which are not part"),
    ],
)
def test_a_log_that_cannot_be_is_refused_before_anything_is_made(
    catalog: Catalog, options: dict[str, str], given: dict[str, str], error: type[LakelogError], message: str
) -> None:
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)

    with pytest.raises(error, match=message):
        table.log_store.add(given)

    assert open_table(table.path).schema == table.schema


def test_a_removed_log_is_taken_into_the_files_whole(logged: Table) -> None:
    log = log_of_table(logged)

    changed = logged.log_store.remove(force=True)

    assert changed.log is None
    assert not [key for key in changed.schema.options if key.startswith("log.")]
    changed.write(rows_of(3))
    assert content(changed) == {0: 0, 1: 0, 3: 3, 4: 3}
    await_deleted(kafka_topic(log))
    with pytest.raises(InvalidRequestError, match="has no log"):
        changed.log_store.remove(force=True)
    again = changed.log_store.add()
    write(again, 1)
    assert content(again) == {0: 0, 1: 1, 2: 1, 3: 3, 4: 3}
    assert [bool(one.topic_id) for one in ended(again)] == [True, False]


def test_a_kept_topic_outlives_its_log(logged: Table) -> None:
    log = log_of_table(logged)

    logged.log_store.remove(keep_topic=True, force=True)

    assert describe_topic(kafka_topic(log)).topic_id == log.topic_id
    delete_topic(kafka_topic(log))


def test_writers_that_opened_a_table_before_it_lost_its_log_are_refused(logged: Table) -> None:
    running = LocalWriter(open_table(logged.path), "job")
    running.write(1, rows_of(1), UPSERTS)

    logged.log_store.remove(keep_topic=True, force=True)

    with pytest.raises(NotFoundError, match=r"has no log: the log \S+ ended at snapshot 3.* Start it again"):
        running.write(2, rows_of(2), UPSERTS)
    assert content(logged) == {0: 0, 1: 1, 2: 1}


def test_a_batch_that_is_in_a_part_of_the_log_is_finished_before_the_log_is_removed(logged: Table) -> None:
    with pytest.raises(InjectedCrash):
        LocalWriter(logged, "job", observe=DiesInItsSecondBucket()).write(1, wide_rows(), None)

    with pytest.raises(InvalidRequestError, match=r"batch 1 of job is in the log of table db\.t .* finished the batch"):
        logged.log_store.remove(force=True)

    LocalWriter(open_table(logged.path), "job").write(1, wide_rows(), None)
    changed = open_table(logged.path).log_store.remove(force=True)
    assert content(changed) == dict.fromkeys(range(10), 1)


def test_a_batch_that_is_in_a_part_of_the_log_is_finished_in_the_next_one(logged: Table) -> None:
    with pytest.raises(InjectedCrash):
        LocalWriter(logged, "job", observe=DiesInItsSecondBucket()).write(1, wide_rows(), None)

    renewed = logged.log_store.renew(force=True)

    LocalWriter(open_table(logged.path), "job").write(1, wide_rows(), None)
    assert content(renewed) == dict.fromkeys(range(10), 1)
    assert 0 < len(logged_ids(renewed)) < 10, "a bucket of the batch is in the older log"


def wide_rows() -> pa.Table:
    """Rows of both buckets."""
    return pa.table([pa.array(range(10)), pa.array([1] * 10, pa.int32())], schema=SCHEMA)


def test_a_writer_between_two_marks_opens_the_log_again(logged: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = log_ending.log_mark
    count = 0

    def log_mark(producer: object, header: object) -> int:
        nonlocal count
        count += 1
        if count == 2:
            with pytest.raises(ConflictError, match="has ended: the table's log was or is being removed or replaced"):
                LocalWriter(open_table(logged.path), "other").write(0, wide_rows(), None)
            LocalWriter(open_table(logged.path), "third", is_first=False).write(0, rows_of_bucket(logged, 1), None)
        return whole(producer, header)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(log_ending, "log_mark", log_mark)
    with pytest.raises(ConflictError, match=r"another stream writes table db\.t now, in bucket 1"):
        logged.log_store.remove(force=True)

    write(open_table(logged.path), 1)
    assert content(logged)[2] == 1


def rows_of_bucket(table: Table, bucket: int) -> pa.Table:
    """Rows of one bucket alone."""
    schema = table.store.schema
    rows = wide_rows()
    return rows.filter(pa.array(bucket_of(rows, schema.bucket_fields, 2, schema.bucket_function) == bucket))


def test_a_lost_topic_is_made_anew_from_the_newest_snapshot(logged: Table) -> None:
    write(logged, 1)
    delete_topic(kafka_topic(log_of_table(logged)))
    with pytest.raises(NotFoundError):
        write(open_table(logged.path), 2)

    renewed = open_table(logged.path).log_store.renew(force=True)

    write(renewed, 2)
    assert content(renewed) == {0: 0, 1: 1, 2: 2, 3: 2}
    assert logged_ids(renewed) == {2, 3}
    assert log_of_table(renewed).topic != log_of_table(logged).topic


@pytest.mark.parametrize("dies_at", range(1, 6))
def test_a_renewal_that_was_cut_off_goes_on(logged: Table, monkeypatch: pytest.MonkeyPatch, dies_at: int) -> None:
    """It dies at a mark, in the commit that adopts, before the schema, or before the last snapshot."""
    with pytest.raises(InjectedCrash):
        LocalWriter(logged, "job", observe=die_at(Step.BEFORE_SNAPSHOT)).write(1, rows_of(1), UPSERTS)
    calls = 0

    def dying(whole: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            nonlocal calls
            calls += 1
            if calls == dies_at:
                raise InjectedCrash
            return whole(*arguments, **named)

        return call

    with monkeypatch.context() as patched:
        patched.setattr(log_ending, "log_mark", dying(log_ending.log_mark))
        patched.setattr(TableCommit, "commit", dying(TableCommit.commit))
        patched.setattr(SchemaManager, "create", dying(SchemaManager.create))
        with pytest.raises(InjectedCrash):
            open_table(logged.path).log_store.renew(force=True)
    if dies_at > 1:
        with pytest.raises((ConflictError, NotFoundError), match="again"):
            write(open_table(logged.path), 1)

    renewed = open_table(logged.path).log_store.renew(force=True)

    write(renewed, 1)
    write(renewed, 2)
    assert content(renewed) == {0: 0, 1: 1, 2: 2, 3: 2}
    assert [one.topic_id for one in ended(renewed)] == [log_of_table(logged).topic_id]


def test_marks_are_in_the_log_and_no_batches_of_a_writer(logged: Table) -> None:
    log = log_of_table(logged)
    renewed = logged.log_store.renew(keep_topic=True, force=True)

    marks = [header.mark for _, header in read_headers(logged)]

    assert marks.count(LogMark.END) == 2
    state = LocalWriter(renewed, "job")
    state.write(1, rows_of(1), UPSERTS)
    users = carried_properties(renewed.store.snapshots.latest(), renewed.store.snapshots).properties["lakelog.users"]
    assert "lakelog-log" not in users
    delete_topic(kafka_topic(log))


def test_a_topic_with_fewer_partitions_than_buckets_is_refused(logged: Table) -> None:
    schema = replace(logged.schema, options={**logged.schema.options, "bucket": "3"})
    other = Table(replace(logged.store, schema=schema))

    with pytest.raises(CorruptDataError, match=r"has 2 partitions, and table .* has bucket=3"):
        log_of_table(other).check_topic()


def test_a_dropped_table_leaves_its_topic_when_asked(catalog: Catalog, logged: Table) -> None:
    catalog.drop_table("db.t", keep_topic=True)

    assert describe_topic(kafka_topic(log_of_table(logged))).partition_count == 2
    delete_topic(kafka_topic(log_of_table(logged)))


def test_log_options_of_a_table_without_a_log_name_the_way_to_one(plain: Table) -> None:
    with pytest.raises(InvalidRequestError, match="the table has no log; `lakelog log add`"):
        plain.alter(SetOption("log.retention", "1 d"))


@pytest.mark.full  # the client waits for half a minute for its transaction
def test_a_batch_whose_topic_is_created_again_while_it_is_written_is_an_error(logged: Table) -> None:
    log, rows = log_of_table(logged), rows_of_bucket(logged, 0)
    LocalWriter(logged, "job").write(1, rows, None)

    def observe(step: Step, _user: str, _identifier: int, _bucket: int | None) -> None:
        if step is Step.BEGIN:
            delete_topic(kafka_topic(log))
            create_topic(kafka_topic(log), 2)

    with pytest.raises(CorruptDataError, match="was deleted, and created again, while it was written"):
        LocalWriter(logged, "job", observe=observe, is_first=False).write(2, rows.slice(0, 1), None)

"""`Table.follow` of logged tables, on a real broker: beside Spark's source, through kills, and as the log is lost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any  # Any: JSON

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import InvalidRequestError
from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.kafka.records import reader, record_watch
from lakelog.streams import follower
from lakelog.streams.change_batch import ChangeBatch
from lakelog.streams.phases import stream_head, stream_log
from lakelog.streams.reading import part_rows
from tests.support.examples import examples
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import lose_records
from tests.support.streams.planned_reader import Reader
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration

IDS = 12
KINDS = {
    "upsert": {"log.changelog-mode": "upsert"},
    "all": {"log.changelog-mode": "all"},
    "append-only": {},
}
FOLLOWER = """
import json, sys
from lakelog.catalog import open_table
path, out, start = sys.argv[1:]
with open_table(path).follow(start=start or "snapshot") as changes, open(out, "a") as file:
    for batch in changes:
        line = json.dumps({"rows": batch.to_arrow().to_pylist(), "position": str(batch.position)})
        file.write(line + "\\n")
        file.flush()
"""


@pytest.fixture(autouse=True)
def every_look_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_head, "HEAD_SECONDS", 0.0)


def made(folder: Path, servers: str, kind: str = "upsert", **options: str) -> Table:
    options = {"bucket": "2", "log.system": "kafka"} | KINDS[kind] | options
    keys = () if kind == "append-only" else ("id",)
    more = {"bucket-key": "id"} if kind == "append-only" else {}
    return Catalog(folder, bootstrap_servers=servers).create_table(
        "db.t", schema=SCHEMA, primary_keys=keys, options=options | more
    )


def rows_of(dice: random.Random, batch: int) -> pa.Table:
    ids = dice.sample(range(IDS), dice.randint(1, IDS))
    return pa.table([pa.array(ids), pa.array([batch] * len(ids), pa.int32())], schema=SCHEMA)


def opened_again(table: Table) -> Table:
    """The table as another process opens it."""
    return open_table(table.path, options={f"kafka.{key}": value for key, value in table.kafka.items()})


class Program:
    """It stores each batch with its position, and is started again anywhere."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.found: list[tuple[str, int, int]] = []
        self.position = "snapshot"

    def read(self, batches: int = 1_000) -> bool:
        """Read some batches in a new stream; False at the end."""
        opened = opened_again(self._table)
        with opened.follow(start=self.position, until="latest") as changes:
            for _ in range(batches):
                batch = next(changes, None)
                if batch is None:
                    return False
                self.found += [(row["_row_kind"], row["id"], row["batch"]) for row in batch.to_arrow().to_pylist()]
                self.position = str(batch.position)
        return True


def folded(found: list[tuple[str, int, int]], *, has_key: bool) -> Counter[tuple[int, int]]:
    if not has_key:
        return Counter((key, batch) for _, key, batch in found)
    state: dict[int, int] = {}
    for kind, key, batch in found:
        if kind in ("+I", "+U"):
            state[key] = batch
        else:
            state.pop(key, None)
    return Counter(state.items())


def contents(table: Table) -> Counter[tuple[int, int]]:
    return Counter((row["id"], row["batch"]) for row in table.to_arrow().to_pylist())


@pytest.mark.parametrize("kind", KINDS)
def test_a_follower_has_what_spark_s_source_has(tmp_path: Path, bootstrap_servers: str, kind: str) -> None:
    """In any pieces, from stored positions; the same changes as the planner of Spark's source gives."""
    for seed in range(examples(2)):
        dice = random.Random(seed)
        table = made(tmp_path / str(seed), bootstrap_servers, kind)
        writer, program, reader = LocalWriter(table, "a"), Program(table), Reader(table)
        for batch in range(8):
            if dice.random() < 0.7:
                writer.write(batch, rows_of(dice, batch), None)
            elif kind == "append-only":
                table.write(rows_of(dice, batch))
            else:
                table.delete(f"id < {dice.randint(1, IDS)}")
            if dice.random() < 0.6:
                program.read(dice.randint(1, 3))
        while program.read(dice.randint(1, 4)):
            pass
        reader.read()
        assert folded(program.found, has_key=kind != "append-only") == contents(table)
        if kind == "all":  # with old values each change is there, so the sums are those of Spark's source
            sums: Counter[tuple[int, int]] = Counter()
            for change, key, value in program.found:
                sums[key, value] += 1 if change in ("+I", "+U") else -1
            assert +sums == +reader.rows == contents(table)


def test_batches_that_wait_for_their_snapshot_come_at_once(tmp_path: Path, bootstrap_servers: str) -> None:
    table = made(tmp_path, bootstrap_servers, **{"snapshot.interval": "10 min"})
    writer, dice = LocalWriter(table, "a"), random.Random(1)
    with table.follow(start="latest") as changes:
        threading.Timer(0.2, lambda: writer.log(0, rows_of(dice, 0))).start()
        first = next(changes)
    assert first.snapshot == 0
    assert set(first.rows["batch"].to_pylist()) == {0}


def test_what_a_follower_has_heard_it_reads_without_a_further_question(
    tmp_path: Path, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records that say that there is something new are those that are read."""
    table = made(tmp_path, bootstrap_servers, "all")
    writer, ids = LocalWriter(table, "a"), list(range(IDS))
    with opened_again(table).follow(start="latest") as changes:
        assert changes.poll(0.2) is None
        for batch in range(8):
            writer.log(batch, pa.table([pa.array(ids), pa.array([batch] * IDS, pa.int32())], schema=SCHEMA))
            if batch == 2:
                for name in ("HEAD_SECONDS", "_SNAPSHOT_SECONDS_MAX"):  # the table itself is looked at later
                    monkeypatch.setattr(stream_head, name, 3_600.0)
                for module, name in (
                    (stream_head, "last_stable_offsets"),
                    (stream_log, "log_start_offsets"),
                    (reader, "open_consumer"),
                ):
                    monkeypatch.setattr(module, name, refused)
            found: list[tuple[int, int]] = []
            while len(found) < IDS:
                rows = new_rows(next(changes))
                found += zip(rows["id"].to_pylist(), rows["batch"].to_pylist(), strict=True)
            assert sorted(found) == [(one, batch) for one in ids]


def new_rows(batch: ChangeBatch) -> pa.Table:
    """The rows behind the changes of a batch."""
    rows = batch.to_arrow()
    return rows.filter(pc.is_in(rows["_row_kind"], pa.array(["+I", "+U"])))


def refused(*_given: object, **_named: object) -> None:
    raise AssertionError("a question to the broker")


@pytest.mark.parametrize("kept_bytes", [1_000, 4 << 20, 64 << 20])
def test_a_transaction_of_many_fetches_comes_whole(
    tmp_path: Path, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch, kept_bytes: int
) -> None:
    monkeypatch.setattr(stream_head, "HEAD_SECONDS", 0.1)
    monkeypatch.setattr(record_watch, "_KEPT_BYTES_MAX", kept_bytes)
    table = made(tmp_path, bootstrap_servers, "all", bucket="1")
    writer, count = LocalWriter(table, "a"), 100_000
    with opened_again(table).follow(start="latest") as changes:
        assert changes.poll(0.2) is None
        for number in range(3):
            writer.log(number, pa.table([range(count), pa.array([number] * count, pa.int32())], schema=SCHEMA))
            sizes, is_whole = 0, False
            while not is_whole:
                batch = next(changes)
                rows = new_rows(batch)
                sizes, is_whole = sizes + rows.num_rows, batch.complete
                assert set(rows["batch"].unique().to_pylist()) <= {number}
            assert sizes == count


def test_a_follower_that_is_killed_anywhere_has_each_change_once(tmp_path: Path, bootstrap_servers: str) -> None:
    table = made(tmp_path, bootstrap_servers, "all")
    writer, dice, out = LocalWriter(table, "a"), random.Random(5), tmp_path / "out"
    out.touch()
    for batch in range(12):
        written = out.read_text().splitlines()
        start = json.loads(written[-1])["position"] if written else ""
        process = subprocess.Popen(
            [sys.executable, "-c", FOLLOWER, table.path, str(out), start],
            env={**os.environ, "LAKELOG_KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers},
        )
        writer.write(batch, rows_of(dice, batch), None)
        deadline = time.monotonic() + dice.uniform(0.3, 3)
        while time.monotonic() < deadline and len(out.read_text().splitlines()) < len(written) + 2:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        whole = out.read_text()
        out.write_text(whole[: whole.rfind("\n") + 1])  # a line in part was not committed
    program = Program(table)
    lines: list[dict[str, Any]] = [json.loads(line) for line in out.read_text().splitlines()]
    program.found = [(row["_row_kind"], row["id"], row["batch"]) for line in lines for row in line["rows"]]
    program.position = lines[-1]["position"] if lines else "snapshot"
    program.read()
    sums: Counter[tuple[int, int]] = Counter()
    for change, key, value in program.found:
        sums[key, value] += 1 if change in ("+I", "+U") else -1
    assert +sums == contents(table)
    assert min(sums.values()) >= 0


def test_records_that_kafka_has_deleted_come_from_the_files(tmp_path: Path, bootstrap_servers: str) -> None:
    table = made(tmp_path, bootstrap_servers, "all", **{"changelog-producer": "lookup"})
    writer, dice, program = LocalWriter(table, "a"), random.Random(3), Program(table)
    writer.write(0, rows_of(dice, 0), None)
    program.read()
    for batch in range(1, 5):
        writer.write(batch, rows_of(dice, batch), None)
    for bucket in range(2):
        lose_records(table, bucket)
    writer.write(5, rows_of(dice, 5), None)
    program.read()
    assert folded(program.found, has_key=True) == contents(table)


def test_what_neither_log_nor_files_have_is_an_error(tmp_path: Path, bootstrap_servers: str) -> None:
    table = made(tmp_path, bootstrap_servers)
    writer, dice, program = LocalWriter(table, "a"), random.Random(3), Program(table)
    writer.write(0, rows_of(dice, 0), None)
    program.read()
    for batch in range(1, 5):
        writer.write(batch, rows_of(dice, batch), None)
    for bucket in range(2):
        lose_records(table, bucket)
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1, older_than="1 ms")
    with pytest.raises(LogTruncatedError, match="no snapshot is at these offsets"):
        program.read()


def test_a_consumer_s_records_are_kept_from_retention(tmp_path: Path, bootstrap_servers: str) -> None:
    table = made(tmp_path, bootstrap_servers, **{"log.retention": "0 ms"})
    writer, dice = LocalWriter(table, "a"), random.Random(3)
    writer.write(0, rows_of(dice, 0), None)
    with table.follow(consumer="billing", until="latest") as changes:
        list(changes)
    for batch in range(1, 5):
        writer.write(batch, rows_of(dice, batch), None)
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1, older_than="1 ms")
    with table.follow(consumer="billing", until="latest") as changes:
        found = {one for batch in changes for one in batch.rows["batch"].to_pylist()}
    assert found == {1, 2, 3, 4}


def test_a_consumer_that_was_deleted_begins_anew(tmp_path: Path, bootstrap_servers: str) -> None:
    table = made(tmp_path, bootstrap_servers)
    LocalWriter(table, "a").write(0, rows_of(random.Random(3), 0), None)
    for _ in range(2):
        with table.follow(consumer="billing", until="latest") as changes:
            assert sum(map(len, changes)) == table.count()
        table.consumers.delete("billing")


def test_a_stream_over_a_rescaled_log_goes_on(tmp_path: Path, bootstrap_servers: str) -> None:
    table = made(tmp_path, bootstrap_servers)
    writer, dice, program = LocalWriter(table, "a"), random.Random(3), Program(table)
    writer.write(0, rows_of(dice, 0), None)
    program.read()
    writer.write(1, rows_of(dice, 1), None)
    table.upkeep.rescale(4)
    LocalWriter(opened_again(table), "b").write(0, rows_of(dice, 2), None)
    program.read()
    assert folded(program.found, has_key=True) == contents(open_table(table.path))


def test_a_table_whose_columns_have_the_names_of_places_is_refused(tmp_path: Path, bootstrap_servers: str) -> None:
    table = Catalog(tmp_path, bootstrap_servers=bootstrap_servers).create_table(
        "db.t", schema=pa.schema({"_Offset": pa.int64()}), options={"log.system": "kafka", "bucket": "1"}
    )
    with pytest.raises(InvalidRequestError, match="has the column '_offset'"):
        table.follow()


def test_pieces_of_a_transaction_have_positions(
    tmp_path: Path, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_rows, "BATCH_RECORDS", 1)
    monkeypatch.setattr(follower, "PIECE_ROWS", 1)
    table = made(tmp_path, bootstrap_servers, "all")
    writer, dice, program = LocalWriter(table, "a"), random.Random(3), Program(table)
    for batch in range(4):
        writer.write(batch, rows_of(dice, batch), None)
        while program.read(1):
            pass
    assert folded(program.found, has_key=True) == contents(table)

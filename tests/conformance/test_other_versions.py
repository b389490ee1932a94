"""What an earlier version of lakelog made, or was killed at, this one reads and goes on with; and the other way round.

`earlier/` holds what the earlier version made, for the gate: tables without a log with verbs that were cut off by
SIGKILL, and a warehouse with its broker, streams, statements and lineage. In `--full` both versions make more, cut off
before each change of a file, and each goes on with what the other one made.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any  # Any: JSON

import pytest
from pyspark.sql import SparkSession

from benchmarks.against import worktree_of
from lakelog.catalog import Catalog, open_table
from lakelog.logstore.broker.broker import EmbeddedBroker
from tests.conformance import crossing, crossing_streams, crossing_tails
from tests.conformance.crossing import KINDS, LATE, VERBS, Rows
from tests.support.logs.local_writer import LocalWriter

ROOT = Path(__file__).parents[2]
EARLIER = "6419e0d"
FOLDER = Path(__file__).parent / "earlier" / EARLIER
MADE: Mapping[str, list[int]] = json.loads((FOLDER / "tables.json").read_text("utf-8"))


def pairs(rows: Mapping[int, str]) -> list[list[object]]:
    """Rows as JSON has them."""
    return [[key, rows[key]] for key in sorted(rows)]


def check_table(verb: str, told: dict[str, Any], *, rows_wait: bool = False) -> None:
    """A table is as it was before a verb or after it, the verb is done (again), and the table lives on.

    With `rows_wait` no read shows new rows before a compaction, nor the old ones after an overwrite.
    """
    before, after = pairs(VERBS[verb].before), pairs(VERBS[verb].after)
    if verb == "drop_table":
        assert told["found"] is None or told["found"]["rows"] == before
        assert told["after"] is None
        lives_on: Rows = VERBS[verb].before | LATE
    else:
        assert told["found"]["rows"] in (before, after, *[[]] * (rows_wait and verb == "overwrite"))
        assert told["after"]["rows"] == after, told.get("refused")
        lives_on = VERBS[verb].after | LATE
    assert told["written"]["rows"] == pairs(lives_on)
    for what in ("rows", "tags", "branches"):
        assert told["tidied"][what] == told["written"][what]


def check_statement(told: dict[str, Any]) -> None:
    """A statement on a table with a log is whole or out, is done (again), and the table lives on."""
    statement = told["table"].partition(".")[0]
    after = crossing_streams.AFTER[statement]
    assert told["found"] in (pairs({1: "a", 2: "B", 3: "c"}), pairs(after))
    assert told["after"] == pairs(after), told.get("refused")
    assert told["written"] == pairs({**after, 99: "z"})
    assert told["log_is_equal"] is (None if statement == "remove_log" else True)


def check_streams(seen: dict[str, Any]) -> None:
    """Streams go on from their checkpoints, once; lineage and log are whole."""
    three = pairs({1: "source 1", 2: "source 2", 3: "source 3", 10: "ten 2"})
    four = pairs({1: "source 1", 2: "source 2", 3: "source 3", 4: "source 4", 10: "ten 4"})
    two = pairs({1: "source 1", 2: "source 2", 10: "ten 2"})
    assert seen["found"] == {"source": three, "main": two, "copy": two}
    assert seen["streamed"] == dict.fromkeys(("source", "main", "copy"), three)
    assert seen["newer"] == dict.fromkeys(("source", "main", "copy"), four)
    assert seen["upstream"] == ["db.main", "db.source"]
    assert seen["downstream"] == ["db.copy", "db.main"]
    assert seen["log_is_equal"] == {"main": True, "copy": True}
    for told in seen["statements"]:
        check_statement(told)


def as_json(told: object) -> Any:  # Any: JSON
    """What another process would have printed."""
    return json.loads(json.dumps(told))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warehouse of tables without a log."""
    return unpacked("tables.tar.xz", tmp_path_factory.mktemp("tables"))


def unpacked(name: str, folder: Path) -> Path:
    """A folder with what is in an archive."""
    with tarfile.open(FOLDER / name) as archive:
        if hasattr(tarfile, "data_filter"):  # Debian's Python 3.11 is older
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(folder)
    return folder


@pytest.mark.parametrize("verb", MADE)
def test_a_verb_that_an_earlier_version_was_killed_at_is_done_and_its_table_lives_on(tables: Path, verb: str) -> None:
    for number in MADE[verb]:
        check_table(verb, as_json(crossing.go_on(Catalog(tables), f"{verb}.t{number}", "keyed", verb)))


@pytest.mark.integration
def test_streams_statements_and_lineage_of_an_earlier_version_go_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKELOG_KAFKA_BOOTSTRAP_SERVERS", raising=False)
    folder = unpacked("streams.tar.xz", tmp_path)
    try:
        check_streams(as_json(crossing_streams.go_on(spark, folder)))
    finally:
        EmbeddedBroker(folder / "lake").stop()


@cache
def python_of(version: str) -> Path:
    """The Python of this version, or of the earlier one, which is set up in a worktree."""
    if version == "this":
        return Path(sys.executable)
    checkout = worktree_of(EARLIER)
    subprocess.run([sys.executable, checkout / "scripts" / "setup.py"], cwd=checkout, check=True)
    return checkout / ".venv" / "bin" / "python"


def run(version: str, module: str, *words: object) -> str:
    """What a program prints that a version runs."""
    return ended(version, module, *words, must_end_well=True).stdout


def ended(version: str, module: str, *words: object, must_end_well: bool) -> subprocess.CompletedProcess[str]:
    """A program that a version has run; its errors are printed, if it `must_end_well`."""
    python = str(python_of(version))
    # The workers of Spark run the same version, and not that of this process, which has named its Python.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    command = [python, "-m", module, *map(str, words)]
    errors = None if must_end_well else subprocess.PIPE
    return subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, check=must_end_well
    )


DIRECTIONS = [
    pytest.param("earlier", "this", id="this one goes on"),
    pytest.param("this", "earlier", id="the earlier one goes on"),
]
REFUSED = ("dynamic", "rescale")  # dynamic buckets have no number that a rescale could change
# Merged again, the earlier one finds nothing new, and does not compact what a killed process has left.
STAYS_UNSEEN = ("vectors", "merge_changes", "the earlier one goes on")
CUT_OFF = [
    pytest.param(kind, verb, *direction.values, id=f"{kind}-{verb}-{direction.id}")
    for kind in KINDS
    for verb in VERBS
    for direction in DIRECTIONS
    if (kind, verb) != REFUSED and (kind, verb, direction.id) != STAYS_UNSEEN
]


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("kind", "verb", "maker", "other"), CUT_OFF)
def test_a_version_goes_on_wherever_the_other_was_killed(
    tmp_path: Path, kind: str, verb: str, maker: str, other: str
) -> None:
    count = run(maker, crossing.__name__, "make", tmp_path, kind, verb).strip()
    told = run(other, crossing.__name__, "go_on", tmp_path, kind, verb, count).splitlines()
    assert len(told) == int(count)
    for line in told:
        check_table(verb, json.loads(line), rows_wait=kind == "vectors")
    shutil.rmtree(tmp_path)  # thousands of files


@pytest.mark.full
@pytest.mark.integration
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("maker", "other"), DIRECTIONS)
def test_a_version_goes_on_with_streams_of_the_other(tmp_path: Path, maker: str, other: str) -> None:
    run(maker, crossing_streams.__name__, "make", tmp_path)
    told = run(other, crossing_streams.__name__, "go_on", tmp_path).splitlines()
    check_streams(json.loads(told[-1]))


@pytest.mark.full
@pytest.mark.integration
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("statement", ["write", "delete"])
def test_an_earlier_version_takes_in_batches_that_wait_for_the_snapshot_of_an_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.delenv("LAKELOG_KAFKA_BOOTSTRAP_SERVERS", raising=False)
    options = {"bucket": "2", "log.system": "kafka", "snapshot.interval": "10 min"}
    table = Catalog(tmp_path).create_table("db.t", schema=crossing.SCHEMA, primary_keys="id", options=options)
    try:
        writer = LocalWriter(table, "interval")
        writer.write(0, crossing.rows_of({1: "a", 2: "b", 3: "c", 4: "d"}), None)
        for batch in (1, 2):
            writer.log(batch, crossing.rows_of({2: f"two {batch}", 3: f"three {batch}", 10 + batch: "new"}))

        told = json.loads(run("earlier", crossing_tails.__name__, tmp_path, statement))

        first = {1: "a", 2: "b", 3: "c", 4: "d"}
        rows = first | {2: "two 2", 3: "three 2", 11: "new", 12: "new"}
        rows |= {99: "z"} if statement == "write" else {}
        if statement == "delete":
            del rows[2]
        assert told["found"] == pairs(first)
        assert told["log_is_equal"]
        assert all(
            one in [*pairs(rows), *pairs(first)] for one in told["after"]
        )  # it visits the buckets that it writes
        writer = LocalWriter(open_table(table.path), "interval")
        writer.log(3, crossing.rows_of({5: "later"}))
        writer.take_in()
        assert dict(crossing.shown(Catalog(tmp_path).load_table("db.t"))) == rows | {5: "later"}
        assert Catalog(tmp_path).load_table("db.t").log_store.verify().is_equal
    finally:
        EmbeddedBroker(tmp_path).stop()


@pytest.mark.full
@pytest.mark.integration
@pytest.mark.timeout(1200)
def test_an_earlier_version_refuses_writes_of_a_writer_in_a_log_by_their_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could not finish them. Once a snapshot has them it goes on, and keeps the identifiers of their sources."""
    monkeypatch.delenv("LAKELOG_KAFKA_BOOTSTRAP_SERVERS", raising=False)
    options = {"bucket": "2", "log.system": "kafka"}
    table = Catalog(tmp_path).create_table("db.t", schema=crossing.SCHEMA, primary_keys="id", options=options)
    rows = {1: "a", 2: "b", 3: "c", 4: "d"}
    try:
        with table.writer("w", snapshot_interval="10 min") as writer:
            writer.write(crossing.rows_of(rows), source="s", identifier=7)
            refused = ended("earlier", crossing_tails.__name__, tmp_path, "write", must_end_well=False)
            assert refused.returncode != 0
            assert "CorruptDataError" in refused.stderr
            assert "version 3, expected 1" in refused.stderr
            assert dict(crossing.shown(Catalog(tmp_path).load_table("db.t"))) == {}
        answer = json.loads(run("earlier", crossing_tails.__name__, tmp_path, "write"))
        assert (answer["found"], answer["after"]) == (pairs(rows), pairs({**rows, 99: "z"}))
        with open_table(table.path).writer("w") as writer:
            assert writer.last_identifier("s") == 7
            writer.write(crossing.rows_of({1: "again"}), source="s", identifier=7)
            writer.write(crossing.rows_of({5: "e"}), source="s", identifier=8)
        assert dict(crossing.shown(Catalog(tmp_path).load_table("db.t"))) == {**rows, 99: "z", 5: "e"}
    finally:
        EmbeddedBroker(tmp_path).stop()

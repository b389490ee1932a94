"""Logs, checkpoints, statements and lineage that one version of lakelog makes; another goes on with them.

Run as a program by the Python of either version, see `tests.conformance.crossing`:

    crossing_streams.py make FOLDER       the warehouse FOLDER/lake with its broker, checkpoints FOLDER/<table>
    crossing_streams.py go_on FOLDER      goes on with all of them; the last line is one JSON object of what was seen

`main` is streamed from `source`, `copy` from the log of `main`. One batch of each is cut off by SIGKILL, and so are
statements on tables with a log, each before another change of a file.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,  # Any: tables of two versions, with names that one of them has no more
)

from lakelog.catalog import Catalog
from lakelog.common.errors import LakelogError
from lakelog.lineage import downstream, feed, upstream
from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.spark import write_stream
from tests.conformance.crossing import KEPT, SCHEMA, rows_of, shown
from tests.conformance.either_version import load, verb_of
from tests.support.kills.dying_at_changes import die_before_change
from tests.support.servers.spark import make_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGED = KEPT | {"log.system": "kafka"}
_STEP, _BATCH = "CROSSING_STEP", "CROSSING_BATCH"
_AFTER_LOG = "before snapshot create"  # the log has the batch, the files have it not
STATEMENTS = ("delete", "overwrite", "restore", "add_log", "remove_log", "renew_log")
CHANGES = (12, 20, 23)  # before which change of a file a statement is cut off: before, after and in its decision


def observe(step: str, user: str, identifier: int, bucket: int | None) -> None:
    """Kill the driver, with its JVM, before a step of a batch that the environment names."""
    del user, bucket
    if str(step) == os.environ[_STEP] and identifier >= int(os.environ[_BATCH]):
        os.killpg(0, signal.SIGKILL)


def catalog_of(folder: Path) -> Any:
    """The warehouse, which keeps its lineage."""
    return Catalog(folder / "lake", options={"data-lineage": "true", "table-lineage": "true"})


def main(what: str, folder: Path, *given: str) -> None:
    """Make, stream, or go on."""
    catalog = catalog_of(folder)
    if what == "stream":
        stream(make_session(), catalog, folder, given[0])
    elif what == "statement":
        _statement(catalog, given[0], int(given[1]))
    elif what == "make":
        _make(catalog, folder)
        EmbeddedBroker(folder / "lake").stop()
    else:
        print(json.dumps(go_on(make_session(), folder)))
        EmbeddedBroker(folder / "lake").stop()


def _make(catalog: Any, folder: Path) -> None:
    source = catalog.create_table("db.source", schema=SCHEMA, primary_keys="id", options=KEPT)
    for name, mode in (("main", "upsert"), ("copy", "all")):
        options = _LOGGED | {"log.changelog-mode": mode}
        catalog.create_table(f"db.{name}", schema=SCHEMA, primary_keys="id", options=options)
    for number in (1, 2):
        source.write(rows_of({number: f"source {number}", 10: f"ten {number}"}))
        _call(folder, "stream", "main")
        _call(folder, "stream", "copy")
    feed(catalog)
    source.write(rows_of({3: "source 3"}))
    _call(folder, "stream", "main", dies_at=(_AFTER_LOG, 2))
    verb_of(load(catalog, "db.main"), "tags.create")("kept")
    for statement in STATEMENTS:
        options = KEPT if statement == "add_log" else _LOGGED
        for number in CHANGES:
            table = catalog.create_table(f"{statement}.t{number}", schema=SCHEMA, primary_keys="id", options=options)
            table.write(rows_of({1: "a", 2: "b"}))
            verb_of(table, "tags.create")("kept")
            table.write(rows_of({2: "B", 3: "c"}))
            _call(folder, "statement", statement, str(number), may_die=True)


def stream(spark: SparkSession, catalog: Any, folder: Path, sink: str) -> None:
    """One run of a stream, up to what is there."""
    source = load(catalog, "db.source" if sink == "main" else "db.main")
    rows = spark.readStream.format("lakelog").load(source.path)
    write_stream(
        rows, f"db.{sink}", catalog=catalog, checkpoint_location=folder / sink, available_now=True, job=f"to {sink}"
    ).awaitTermination()


def _statement(catalog: Any, statement: str, number: int) -> None:
    table = load(catalog, f"{statement}.t{number}")
    die_before_change(number)
    do(catalog, statement, table.name)


def do(catalog: Any, statement: str, name: str) -> None:
    """A statement on a table with a log."""
    table = load(catalog, name)
    if statement == "delete":
        table.delete("id = 1")
    elif statement == "overwrite":
        table.write(rows_of({7: "g"}), mode="overwrite")
    elif statement == "restore":
        table.restore(tag="kept")
    elif statement == "add_log":
        verb_of(table, "log_store.add")()
    elif statement == "remove_log":
        verb_of(table, "log_store.remove")()
    else:
        verb_of(table, "log_store.renew")()


AFTER: Mapping[str, Mapping[int, str]] = {
    "delete": {2: "B", 3: "c"},
    "overwrite": {7: "g"},
    "restore": {1: "a", 2: "b"},
    **{verb: {1: "a", 2: "B", 3: "c"} for verb in ("add_log", "remove_log", "renew_log")},
}


def _call(folder: Path, what: str, *given: str, dies_at: tuple[str, int] | None = None, may_die: bool = False) -> None:
    """Call `main` in a process group of its own."""
    environment = dict(os.environ)
    if dies_at:
        environment |= {"LAKELOG_STEP_OBSERVER": f"{__spec__.name}:observe", _STEP: dies_at[0], _BATCH: str(dies_at[1])}
    command = [sys.executable, "-m", __spec__.name, what, str(folder), *given]
    status = subprocess.run(command, env=environment, start_new_session=True, check=False).returncode
    if status not in ((-signal.SIGKILL,) if dies_at else (0, -signal.SIGKILL) if may_die else (0,)):
        sys.exit(f"{command} ended with {status}")


def go_on(spark: SparkSession, folder: Path) -> dict[str, object]:
    """Go on with all streams, tables and questions; what was seen."""
    catalog = catalog_of(folder)
    seen: dict[str, object] = {"found": _all_rows(catalog)}
    statements: list[dict[str, object]] = []
    for statement in STATEMENTS:
        for number in CHANGES:
            statements.append(_statement_goes_on(catalog, statement, f"{statement}.t{number}"))
    seen["statements"] = statements
    for sink in ("main", "copy"):
        stream(spark, catalog, folder, sink)
    seen["streamed"] = _all_rows(catalog)
    load(catalog, "db.source").write(rows_of({4: "source 4", 10: "ten 4"}))
    for sink in ("main", "copy"):
        stream(spark, catalog, folder, sink)
    seen["newer"] = _all_rows(catalog)
    feed(catalog)
    made = load(catalog, "db.copy").snapshot()
    assert made is not None
    seen["upstream"] = sorted({row["source_table"] for row in upstream(catalog, "db.copy", made.id).to_pylist()})
    seen["downstream"] = sorted({row["sink_table"] for row in downstream(catalog, "db.source", 1).to_pylist()})
    seen["log_is_equal"] = {
        name: verb_of(load(catalog, f"db.{name}"), "log_store.verify")().is_equal for name in ("main", "copy")
    }
    return seen


def _statement_goes_on(catalog: Any, statement: str, name: str) -> dict[str, object]:
    told: dict[str, object] = {"table": name, "found": _rows(catalog, name)}
    try:
        do(catalog, statement, name)
    except LakelogError as error:
        told["refused"] = f"{type(error).__name__}: {error}"
    told["after"] = _rows(catalog, name)
    table = load(catalog, name)
    table.write(rows_of({99: "z"}))
    told["written"] = _rows(catalog, name)
    told["log_is_equal"] = None if table.log is None else verb_of(table, "log_store.verify")().is_equal
    return told


def _all_rows(catalog: Any) -> dict[str, object]:
    return {name: _rows(catalog, f"db.{name}") for name in ("source", "main", "copy")}


def _rows(catalog: Any, name: str) -> list[tuple[int, str]]:
    return shown(load(catalog, name))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])

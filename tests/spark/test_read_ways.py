"""Each option of a read has an effect in each way of reading, or is refused there by its name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lakelog.sql
from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError, LakelogError
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.spark import attach, detach, read
from lakelog.spark.data_source import LakelogDataSource
from lakelog.spark.options import PATH, READ_OPTIONS, TABLE, WAREHOUSE
from lakelog.spark.source.streams.source import LakelogStreamReader
from tests.support.examples import rest_in_full

Options = dict[str, str]
START, HOUR, DAY = 1_767_225_600_000, 3_600_000, 86_400_000
BATCHES_MAX = 12
# What an option needs beside it, the first that a way of reading takes.
BESIDE: Mapping[str, list[Options]] = {
    "timezone": [{"timestamp": "2026-01-01 03:30:00"}],
    "incremental-between-scan-mode": [
        {"incremental-between": "3,5", "row-kind": "true"},
        {"incremental-between": "3,5"},
    ],
    "incremental-between-tag-to-snapshot": [{"incremental-between": "tag1,tag2", "row-kind": "true"}],
    "maxRowsPerTrigger": [{"tag": "tag1"}],
    "maxBytesPerTrigger": [{"tag": "tag1"}],
    "stream.align": [{"tag": "tag1"}],
    "stream.align.snapshots": [{"tag": "tag1", "stream.align": "snapshot"}],
    "stream.on-restore": [{"tag": "tag1"}],
    "stream.on-merge": [{"tag": "tag1"}],
    "scan.normalize": [{"row-kind": "true"}],
}
VALUES = {
    "timestamp": "2026-01-01 03:30:00",
    "scan.timestamp": "2026-01-01 03:30:00",
    "scan.timestamp-millis": str(START + 3 * HOUR),
    "log.scan.timestamp-millis": str(START + 3 * HOUR),
    "log.scan.timestamp-mills": str(START + 3 * HOUR),
    "incremental-between-timestamp": "2026-01-01 03:30:00,2026-01-01 05:30:00",
    "columns": "id",
    "where": "id = 1",
    "snapshot_id": "3",
    "scan.snapshot-id": "3",
    "watermark": "5",
    "scan.watermark": "5",
    "tag": "tag1",
    "scan.tag-name": "tag1",
    "version": "tag1",
    "versionAsOf": "tag1",
    "timestampAsOf": "2026-01-01 03:30:00",
    "scan.version": "tag1",
    "branch": "b",
    "scan.branch": "b",
    "incremental-between": "3,4",
    "incremental-between-scan-mode": "diff",
    "incremental-between-tag-to-snapshot": "true",
    "incremental-to-auto-tag": "2026-01-02",
    "timezone": "America/New_York",
    "row-kind": "true",
    "scan.normalize": "true",
    "maxRowsPerTrigger": "1",
    "maxBytesPerTrigger": "1",
    "startingOffsets": "earliest",
    "endingOffsets": "latest",
    "failOnDataLoss": "false",
    "metadata-columns": "all",
    "stream.align": "snapshot",
    "stream.align.snapshots": "2",
    "stream.align.timeout": "1 h",
    "stream.align.group": "g",
    "stream.align.tables": "db.t",
    "stream.align.folder": "/tmp/g",
    "stream.on-restore": "fail",
    "stream.on-merge": "fail",
    "consumer-id": "mine",
    "logging-level": "ERROR",
    "log.scan": "latest",
    "log.on-untracked": "skip",
    "lakelog.external-paths": "/tmp",
    "s3.path.style.access": "true",
}
OF_THE_PLACE = (PATH, TABLE, WAREHOUSE)  # by them the way of reading finds its table
Way = Callable[["Place", Options], object]
OF_SYSTEM_TABLES = {"where": "schema_id = 9"}  # of those without the columns of the table
# Effects that this table does not show, by the ways of reading: where changes are lost, see
# source/test_stream_from_tag.py, and where files are outside of the table's folder, see attacks/test_links.py.
SEEN_ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "failOnDataLoss": ("stream",),
    "lakelog.external-paths": ("load", "stream"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """A table with its history, and a session to which its warehouse is attached."""

    catalog: Catalog
    table: Table
    session: SparkSession


def made(folder: Path) -> tuple[Catalog, Table]:
    """States of January 2026 with watermarks, two of them with tags; then a merge, a restore, and a write."""
    catalog = Catalog(folder)
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
    table = catalog.create_table("db.t", schema=columns, primary_keys=["id"], options={"bucket": "1"})
    table.write(pa.table({"id": [1, 11], "v": ["a", "b"]}))
    for number in (1, 2):
        table.write(pa.table({"id": [number + 1, 11], "v": [f"v{number}"] * 2}))
        table.compact(full=True)  # `$ro` shows compacted rows alone
        for state in table.snapshots():
            if state.time_millis > START + DAY:
                dated = replace(state, time_millis=START + state.id * HOUR, watermark=10 * number)
                LocalFileIO().write_bytes(table.store.paths.snapshot(state.id), dated.to_json().encode())
        for name in (f"tag{number}", f"2026-01-0{number}"):
            table.tags.create(name)
    table.branches.create("b", tag="tag1")
    table.branch("b").write(pa.table({"id": [99], "v": ["b"]}))
    table.branch("b").compact(full=True)
    table.branches.merge("b")
    table.restore(tag="tag1")
    table.write(pa.table({"id": [50], "v": ["last"]}))
    table.compact(full=True)
    return catalog, table


@pytest.fixture(scope="module")
def place(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    catalog, table = made(tmp_path_factory.mktemp("lake"))
    session = spark.newSession()
    attach(session, "lake", catalog.warehouse)
    yield Place(catalog, table, session)
    detach(session, "lake")


def rows_of(batches: Iterable[Any]) -> list[str]:
    return sorted(str(row) for batch in batches for row in batch.to_pylist())


def loaded(name: str) -> Way:
    """A batch read by `format("lakelog")`."""

    def shown(at: Place, given: Options) -> object:
        made = LakelogDataSource({PATH.key: at.table.path + name, **given})
        schema = made.schema()
        reader = made.reader(schema)
        rows = rows_of(batch for partition in reader.partitions() for batch in reader.read(partition))
        return schema.names, rows, logging.getLogger("lakelog").level

    return shown


def followed(name: str) -> Way:
    """The batches of a stream by `format("lakelog")`."""

    def shown(at: Place, given: Options) -> object:
        made = LakelogDataSource({PATH.key: at.table.path + name, **given})
        schema = made.schema()
        reader = made.streamReader(schema)
        assert isinstance(reader, LakelogStreamReader)
        start, batches, limit = reader.initialOffset(), [], reader.getDefaultReadLimit()
        for _ in range(BATCHES_MAX):
            end = reader.latestOffset(start, limit)
            if end == start:
                break
            parts = reader.partitions(start, end)
            batches.append(rows_of(batch for part in parts for batch in reader.read(part)))
            reader.commit(end)
            start = end
        consumers = [one.consumer_id for one in at.table.consumers.list() if one.consumer_id == VALUES["consumer-id"]]
        reader.stop()
        for one in consumers:
            at.table.consumers.delete(one)
        return schema.names, batches, consumers, logging.getLogger("lakelog").level

    return shown


def attached(name: str, words: str = "") -> Way:
    """SQL in Spark."""

    def shown(at: Place, given: Options) -> object:
        options = ", ".join(f"`{key}` = '{value.replace(chr(39), chr(39) * 2)}'" for key, value in given.items())
        frame = at.session.sql(f"SELECT * FROM lake.db.`t{name}` {words} {f'WITH ({options})' if given else ''}")
        return frame.columns, sorted(map(str, frame.collect()))

    return shown


def queried(name: str, words: str = "") -> Way:
    """SQL without Spark."""

    def shown(at: Place, given: Options) -> object:
        options = ", ".join(f"'{key}' = '{value.replace(chr(39), chr(39) * 2)}'" for key, value in given.items())
        made = f"SELECT * FROM db.`t{name}` {words} {f'WITH ({options})' if given else ''}"
        rows = lakelog.sql.connect(at.catalog).sql(made)
        return rows.column_names, rows_of([rows])

    return shown


RANGE = "CHANGES FROM VERSION 4 TO VERSION 4"  # of the table, and of its branch
WITHOUT_TIMES = ("load of $snapshots", "$snapshots by SQL in Spark")  # no option of theirs names a time
SYSTEM = ("$files", "$audit_log", "$ro", "$snapshots")
WAYS: dict[str, Way] = {
    "load": loaded(""),
    "stream": followed(""),
    "SQL in Spark": attached(""),
    "CHANGES in Spark": attached("", RANGE),
    "SQL without Spark": queried(""),
    "CHANGES without Spark": queried("", RANGE),
    "stream of $audit_log": followed("$audit_log"),
    **{f"load of {name}": loaded(name) for name in SYSTEM},
    **{f"{name} by SQL in Spark": attached(name) for name in ("$audit_log", "$snapshots")},
    **{f"{name} by SQL without Spark": queried(name) for name in ("$audit_log", "$snapshots")},
}


def seen(way: Way, at: Place, given: Options) -> object:
    """What a read shows; the text of its error."""
    level = logging.getLogger("lakelog").level
    try:
        return way(at, given)
    except (LakelogError, PySparkException) as error:
        return str(error)
    finally:
        logging.getLogger("lakelog").setLevel(level)


def has_effect(way: Way, at: Place, key: str, value: str) -> bool:
    """Whether the option changes what is read, or is refused by its name."""
    for beside in (*BESIDE.get(key, ()), {}):
        found = seen(way, at, {**beside, key: value})
        if key.lower() in found.lower() if isinstance(found, str) else found != seen(way, at, beside):
            return True
    return False


@pytest.mark.parametrize("way", rest_in_full(WAYS, 1))
def test_an_option_has_an_effect_or_is_refused_by_name(place: Place, way: str) -> None:
    values = VALUES | (OF_SYSTEM_TABLES if "$files" in way or "$snapshots" in way else {})
    keys = [option.key for option in READ_OPTIONS if option not in OF_THE_PLACE or "SQL" in way]
    keys = [key for key in keys if not way.startswith(SEEN_ELSEWHERE.get(key, ("-",)))]
    without = [key for key in keys if not has_effect(WAYS[way], place, key, values.get(key, "1"))]
    assert without == (["timezone"] if way in WITHOUT_TIMES else [])


@pytest.mark.parametrize("words", ["VERSION AS OF 3", "VERSION AS OF 'tag1'", "TIMESTAMP AS OF '2026-01-01 03:30:00'"])
def test_a_system_table_is_of_the_state_that_words_name_or_refuses_them(place: Place, words: str) -> None:
    for name in ("$files", "$ro", "$audit_log"):
        found = place.session.sql(f"SELECT * FROM lake.db.`t{name}` {words}")
        expected = place.table.system.table(name.removeprefix("$"), snapshot_id=3).to_arrow()
        assert found.count() == expected.num_rows == {"$files": 1}.get(name, 3)
    with pytest.raises(PySparkException, match=r"(version|timestamp)=.*shows no single snapshot"):
        place.session.sql(f"SELECT * FROM lake.db.`t$snapshots` {words}").collect()


def test_a_tag_that_is_missing_is_no_state_of_a_system_table(place: Place) -> None:
    with pytest.raises(PySparkException, match="nowhere"):
        place.session.sql("SELECT * FROM lake.db.`t$files` VERSION AS OF 'nowhere'").collect()


def test_a_system_table_is_consistent_with_no_other_table(place: Place) -> None:
    with pytest.raises(InvalidRequestError, match=r"consistent_with is for the rows of tables, and db\.t\$files is"):
        read(place.session, "db.t$files", catalog=place.catalog, consistent_with=["db.t"])

"""What other table formats are asked to do in Spark, in an environment of their own: upserts, scans, lookups, changes.

    python spark_peer.py <delta|iceberg|paimon|hudi> <jars> <folder of the data> <folder for the table> <keys>

Jars and keys have commas between them. The data are Parquet files in `base`, `batches` and `small`, each a micro-batch
of a stream that upserts it by its key, in the way that the format is made for. It prints the seconds of each step and
what the steps have found, as JSON. It knows nothing of lakelog.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Protocol  # Any: figures of several kinds

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks.local_spark import start_session

KEY = "id"
SHAPE = "id BIGINT, amount BIGINT, price DOUBLE, batch BIGINT, city STRING, note STRING, at TIMESTAMP"
REPEATS = 3


class Peer(Protocol):
    """A table format in Spark."""

    settings: dict[str, str]
    name: str

    def create(self, session: SparkSession) -> None:
        """Make the table."""
        ...

    def insert(self, rows: DataFrame) -> None:
        """Insert rows with new keys."""
        ...

    def upsert(self, rows: DataFrame) -> None:
        """Insert rows, or update those with their keys."""
        ...

    def rows(self, session: SparkSession) -> DataFrame:
        """All rows."""
        ...

    def changes(self, session: SparkSession) -> DataFrame:
        """The rows that the last commit has inserted or updated, as they are now."""
        ...


class Merging:
    """A format whose upserts are a MERGE."""

    name: str

    def insert(self, rows: DataFrame) -> None:
        """Insert rows with new keys."""
        rows.writeTo(self.name).append()

    def upsert(self, rows: DataFrame) -> None:
        """Insert rows, or update those with their keys."""
        rows.createOrReplaceTempView("s")
        rows.sparkSession.sql(
            f"MERGE INTO {self.name} t USING s ON t.{KEY} = s.{KEY} WHEN MATCHED THEN UPDATE SET * "
            "WHEN NOT MATCHED THEN INSERT *"
        )

    def rows(self, session: SparkSession) -> DataFrame:
        """All rows."""
        return session.table(self.name)


class Delta(Merging):
    """Delta, with its change data feed, by which changes are read."""

    def __init__(self, folder: Path) -> None:
        self.name = "spark_catalog.default.t"
        self._folder = folder
        self.settings = {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }

    def create(self, session: SparkSession) -> None:
        """Make the table."""
        session.sql(
            f"CREATE TABLE {self.name} ({SHAPE}) USING delta LOCATION '{self._folder}/t' "
            "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
        )

    def changes(self, session: SparkSession) -> DataFrame:
        """The rows that the last commit has inserted or updated, as they are now."""
        history = session.sql(f"DESCRIBE HISTORY {self.name}").where("operation = 'MERGE'")
        last = history.agg(sf.max("version")).collect()[0][0]
        feed = session.read.format("delta").option("readChangeFeed", "true")
        rows = feed.option("startingVersion", last).option("endingVersion", last).table(self.name)
        return rows.where("_change_type IN ('insert', 'update_postimage')")


class Iceberg(Merging):
    """Iceberg, which rewrites files in its MERGE, as it does by default: else it cannot tell the changes."""

    def __init__(self, folder: Path) -> None:
        self.name = "ice.db.t"
        self.settings = {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.cache-enabled": "false",  # a batch runs in another session, whose commits are read
            "spark.sql.catalog.ice.warehouse": f"{folder}/warehouse",
        }

    def create(self, session: SparkSession) -> None:
        """Make the table."""
        session.sql(f"CREATE TABLE {self.name} ({SHAPE}) USING iceberg")

    def changes(self, session: SparkSession) -> DataFrame:
        """The rows that the last commit has inserted or updated, as they are now."""
        snapshots = session.sql(f"SELECT snapshot_id FROM {self.name}.snapshots ORDER BY committed_at").collect()
        before = snapshots[-2][0]
        session.sql(
            f"CALL ice.system.create_changelog_view(table => 'db.t', options => map('start-snapshot-id', '{before}'), "
            f"changelog_view => 'changes', identifier_columns => array('{KEY}'), compute_updates => true)"
        )
        return session.table("changes").where("_change_type IN ('INSERT', 'UPDATE_AFTER')")


class Paimon:
    """Paimon: a table with a primary key, into which an append is an upsert."""

    def __init__(self, folder: Path) -> None:
        self.name = "pai.db.t"
        self.settings = {
            "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
            "spark.sql.catalog.pai": "org.apache.paimon.spark.SparkCatalog",
            "spark.sql.catalog.pai.warehouse": f"{folder}/warehouse",
        }

    def create(self, session: SparkSession) -> None:
        """Make the table."""
        session.sql("CREATE DATABASE IF NOT EXISTS pai.db")
        options = f"'primary-key' = '{KEY}', 'bucket' = '4'"
        session.sql(f"CREATE TABLE {self.name} ({SHAPE}) TBLPROPERTIES ({options})")

    def insert(self, rows: DataFrame) -> None:
        """Insert rows with new keys."""
        rows.writeTo(self.name).append()

    def upsert(self, rows: DataFrame) -> None:
        """Insert rows, or update those with their keys."""
        self.insert(rows)

    def rows(self, session: SparkSession) -> DataFrame:
        """All rows."""
        return session.table(self.name)

    def changes(self, session: SparkSession) -> DataFrame:
        """The rows that the last commit has inserted or updated, as they are now."""
        snapshots = session.sql("SELECT snapshot_id FROM pai.db.`t$snapshots` WHERE commit_kind = 'APPEND'")
        last = snapshots.agg(sf.max("snapshot_id")).collect()[0][0]
        between = session.read.format("paimon").option("incremental-between", f"{last - 1},{last}")
        return between.load(f"{self.settings['spark.sql.catalog.pai.warehouse']}/db.db/t")


class Hudi:
    """Hudi: a merge-on-read table, in which the last commit of a key counts."""

    def __init__(self, folder: Path) -> None:
        self.name = "hudi_t"
        self._path = f"{folder}/t"
        self.settings = {
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
            "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        }
        self._options = {
            "hoodie.table.name": self.name,
            "hoodie.datasource.write.recordkey.field": KEY,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
            "hoodie.upsert.shuffle.parallelism": "4",
        }

    def create(self, session: SparkSession) -> None:
        """Nothing: the first write makes the table."""

    def insert(self, rows: DataFrame) -> None:
        """Insert rows with new keys, without a search for their files."""
        self._write(rows, "bulk_insert")

    def upsert(self, rows: DataFrame) -> None:
        """Insert rows, or update those with their keys."""
        self._write(rows, "upsert")

    def _write(self, rows: DataFrame, operation: str) -> None:
        options = {**self._options, "hoodie.datasource.write.operation": operation}
        rows.write.format("hudi").options(**options).mode("append").save(self._path)

    def rows(self, session: SparkSession) -> DataFrame:
        """All rows."""
        return session.read.format("hudi").load(self._path)

    def changes(self, session: SparkSession) -> DataFrame:
        """The rows that the last commit has inserted or updated, as they are now."""
        last = self.rows(session).agg(sf.max("_hoodie_commit_time")).collect()[0][0]
        return self.rows(session).where(f"_hoodie_commit_time = '{last}'")


PEERS: dict[str, Callable[[Path], Peer]] = {"delta": Delta, "iceberg": Iceberg, "paimon": Paimon, "hudi": Hudi}


def upsert(session: SparkSession, peer: Peer, source: Path, checkpoint: Path) -> None:
    """Upsert each file of a folder, in the order of their times."""
    rows = session.readStream.schema(SHAPE).option("maxFilesPerTrigger", 1).parquet(str(source))
    writer = rows.writeStream.foreachBatch(lambda batch, _: peer.upsert(batch)).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()
    error = query.exception()
    if error is not None:
        raise error


def seconds(run: Callable[[], object]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def measure(session: SparkSession, peer: Peer, data: Path, work: Path, keys: list[int]) -> dict[str, Any]:
    """The seconds of each step, and the answers."""
    peer.create(session)
    for file in sorted((data / "base").glob("*.parquet")):
        peer.insert(session.read.schema(SHAPE).parquet(str(file)))
    found: dict[str, Any] = {
        "upsert_s": seconds(lambda: upsert(session, peer, data / "batches", work / "checkpoint-batches"))
    }
    answers: dict[str, Any] = {}

    def scan() -> None:
        row = peer.rows(session).agg(sf.count("amount"), sf.sum("amount"), sf.max("price")).collect()[0]
        answers["scan"] = [row[0], row[1], row[2]]

    found["scan_s"] = median(seconds(scan) for _ in range(REPEATS))

    def look_up(key: int) -> None:
        rows = peer.rows(session).where(f"{KEY} = {key}").collect()
        answers.setdefault("lookup", []).append([rows[0]["amount"], len(rows)])

    found["lookup_s"] = median(seconds(partial(look_up, key)) for key in keys)

    def read_changes() -> None:
        row = peer.changes(session).agg(sf.count("amount"), sf.sum("amount")).collect()[0]
        answers["changes"] = [row[0], row[1]]

    found["changes_s"] = median(seconds(read_changes) for _ in range(REPEATS))
    found["small_s"] = seconds(lambda: upsert(session, peer, data / "small", work / "checkpoint-small"))
    answers["end"] = peer.rows(session).agg(sf.count("amount"), sf.sum("amount")).collect()[0].asDict()
    answers["end"] = list(answers["end"].values())
    return {**found, "answers": answers}


def main() -> None:
    """Run one peer and print its figures."""
    name, jars, data, folder, keys = sys.argv[1:]
    peer = PEERS[name](Path(folder))
    session = start_session("peers", {"spark.sql.shuffle.partitions": "4", "spark.jars": jars, **peer.settings})
    figures = measure(session, peer, Path(data), Path(folder), [int(key) for key in keys.split(",")])
    print(json.dumps({**figures, "spark": session.version}), flush=True)
    session.stop()


if __name__ == "__main__":
    main()

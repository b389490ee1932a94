"""Batch reads of several tables that were made from the same versions of the tables that they share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog
from lakelog.common.errors import InvalidRequestError
from lakelog.common.timestamps import millis_of, zone_of
from lakelog.lineage.answers.consistent import At, ConsistentSnapshots, consistent_snapshots
from lakelog.spark.session import session_zone
from lakelog.spark.source.batch.pinned_reads import PINS, pins_of
from lakelog.spark.source.batch.read import read
from lakelog.streams.reading.lease import snapshot_lease


class ConsistentTables(Mapping[str, DataFrame]):
    """Tables at consistent snapshots: their rows as DataFrames, by the names that were asked for.

    `snapshots` has the ids, the versions of the upstream tables, and why a table is not at its newest snapshot.
    """

    def __init__(self, spark: SparkSession, catalog: Catalog, snapshots: ConsistentSnapshots) -> None:
        """Read nothing yet."""
        self._spark = spark
        self._catalog = catalog
        self.snapshots = snapshots

    def __getitem__(self, table: str) -> DataFrame:
        """The rows of a table; they can also be read after the `with` block."""
        token = PINS.set(pins_of(self._catalog, self.snapshots))
        try:
            return read(self._spark, table, catalog=self._catalog)
        finally:
            PINS.reset(token)

    def __iter__(self) -> Iterator[str]:
        return iter(self.snapshots)

    def __len__(self) -> int:
        return len(self.snapshots)


@contextmanager
def consistent_read(
    spark: SparkSession,
    tables: Sequence[str],
    *,
    at: At | None = None,
    catalog: Catalog | None = None,
    warehouse: str | Path | None = None,
    keeps_snapshots: bool = False,
) -> Iterator[ConsistentTables]:
    """Read tables at snapshots that were made from the same versions of all tables that they share.

    Gives the tables as DataFrames. Inside the `with` block each `lakelog.spark.read` of one of them in this thread
    shows that snapshot; a read of another table is an error. `spark.read.format("lakelog")` and views `USING lakelog`
    show the newest snapshot, unless they name another by `scan.snapshot-id`; `spark.sql` takes the DataFrames.

    The snapshots are the newest consistent ones, or those `at` a timestamp (without a zone it is in the session's) or
    at snapshots of upstream tables, `{"db.source": 12}`. With `keeps_snapshots` they do not expire inside the block: a
    file in each table says so. Raises like `lakelog.lineage.consistent_snapshots`.
    """
    catalog = catalog_of(catalog, warehouse)
    found = consistent_snapshots(catalog, tables, in_zone(spark, at))
    with ExitStack() as stack:
        if keeps_snapshots:
            for name in tables:
                lease = snapshot_lease(catalog.load_table(name).store)
                stack.callback(lease.release)
                lease.hold(found[name])
        token = PINS.set(pins_of(catalog, found))
        try:
            yield ConsistentTables(spark, catalog, found)
        finally:
            PINS.reset(token)


def catalog_of(catalog: Catalog | None, warehouse: str | Path | None) -> Catalog:
    """The catalog that a call names. Raises InvalidRequestError if it names none."""
    if catalog is not None:
        return catalog
    if warehouse is None:
        raise InvalidRequestError("say in which catalog the tables are, with catalog=Catalog(...) or warehouse=...")
    return Catalog(warehouse)


def in_zone(spark: SparkSession, at: At | None) -> At | None:
    """The timestamp; one without a zone gets that of the session."""
    if at is None or isinstance(at, Mapping):
        return at
    return millis_of(at, zone_of(session_zone(spark)))

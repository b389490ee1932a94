"""The lease of a stream that writes a table with an eventual log: taken with its first batch, renewed with each."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.metadata.store import TableStore
from lakelog.logstore.options import CONSISTENCY, is_eventual
from lakelog.protocol.writer_lease import WriterLease, take_lease
from lakelog.spark.sink.alignment import MicroBatch

SPECULATION_CONF = "spark.speculation"
_PROCESS = str(uuid.uuid4())  # stands for the run of a query that cannot be seen


class KeptLease:
    """The lease of a sink's last batch, in a run of its query."""

    def __init__(self) -> None:
        """Hold none."""
        self._lease: WriterLease | None = None

    @contextmanager
    def held(self, table: TableStore, micro: MicroBatch, spark: SparkSession) -> Iterator[WriterLease | None]:
        """Hold the lease of the table while a batch is written; None for a table without an eventual log.

        Raises WriterLeaseError while another query holds it, InvalidRequestError where Spark runs tasks twice.
        """
        if not has_one_writer(table):
            yield None
            return
        check_no_speculation(table, spark)
        run = micro.run or _PROCESS
        lease = self._lease
        if lease is None or lease.run != run:
            lease = self._lease = take_lease(table, user=micro.user, run=run)
        else:
            lease.renew()
        with lease.kept():
            yield lease


def has_one_writer(table: TableStore) -> bool:
    """Whether the table has an eventual log."""
    return table.has_log and is_eventual(table.schema.options)


def check_no_speculation(table: TableStore, spark: SparkSession) -> None:
    """Raise InvalidRequestError where Spark may run two attempts of a task of an eventual log at once."""
    if has_one_writer(table) and str(spark.conf.get(SPECULATION_CONF, "false")).lower() == "true":
        raise InvalidRequestError(
            f"{SPECULATION_CONF} is true, and table {table.name} has {CONSISTENCY.key}=eventual: a second attempt of a "
            "task would send its records once more, also after those of later batches; set it to false, or use a table "
            f"with {CONSISTENCY.key}=transactional"
        )

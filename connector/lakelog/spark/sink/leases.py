"""The lease of a stream that writes a table with an eventual log: taken with its first batch, renewed with each.

It is released when the stream is stopped between two batches; otherwise it ends some time after its last renewal.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from lakelog.common.errors import InvalidRequestError, LakelogError
from lakelog.filestore.metadata.tables import TableStore
from lakelog.logstore.options import CONSISTENCY, is_eventual
from lakelog.protocol.writing import WriterLease, take_lease
from lakelog.spark.sink.alignment import MicroBatch

SPECULATION_CONF = "spark.speculation"
logger = logging.getLogger("lakelog.spark")
_PROCESS = str(uuid.uuid4())  # stands for a query's run where Spark shows none


class KeptLease:
    """The lease of a sink's last batch, in a run of its query."""

    def __init__(self) -> None:
        """Hold no lease yet."""
        self._lease: WriterLease | None = None
        self._is_between_batches = False
        self._may_have_left_tasks = False

    @contextmanager
    def held(self, table: TableStore, micro: MicroBatch, spark: SparkSession) -> Iterator[WriterLease | None]:
        """Hold the lease of the table while a batch is written; None for a table without an eventual log.

        Raises WriterLeaseError while another query holds it, InvalidRequestError if Spark may run tasks twice.
        """
        if not has_one_writer(table):
            yield None
            return
        check_no_speculation(table, spark)
        run = micro.run or _PROCESS
        lease = self._lease
        if lease is None or lease.run != run:
            lease = self._lease = take_lease(table, user=micro.user, run=run)
            self._may_have_left_tasks = False  # tasks of an older run find their lease taken
        else:
            lease.renew()
        self._is_between_batches = False
        try:
            with lease.kept():
                yield lease
        except BaseException:
            self.suspect_tasks()
            raise
        self._is_between_batches = True

    def suspect_tasks(self) -> None:
        """Note that an attempt of a task may still run and send records after the stream is stopped."""
        self._may_have_left_tasks = True

    def release(self) -> None:
        """Release the lease of a stream that has ended, so that another query can write at once.

        The lease is not released if the stream was stopped in the middle of a batch, or after an attempt of a task had
        failed: its tasks may still send records, until the lease expires. Never raises: then too the lease expires.
        """
        lease = self._lease
        if lease is None or not self._is_between_batches or self._may_have_left_tasks:
            return
        self._lease = None
        try:
            lease.release()
        except LakelogError as error:
            logger.warning("the lease of table %s is not released: %s", lease.table.name, error)


def has_one_writer(table: TableStore) -> bool:
    """Whether the table has an eventual log."""
    return table.has_log and is_eventual(table.schema.options)


def check_no_speculation(table: TableStore, spark: SparkSession) -> None:
    """Raise InvalidRequestError if Spark may run two attempts of a task of an eventual log at once."""
    if has_one_writer(table) and str(spark.conf.get(SPECULATION_CONF, "false")).lower() == "true":
        raise InvalidRequestError(
            f"{SPECULATION_CONF} is true, and table {table.name} has {CONSISTENCY.key}=eventual: a second attempt of a "
            "task would send its records once more, also after those of later batches; set it to false, or use a table "
            f"with {CONSISTENCY.key}=transactional"
        )

"""One batch of foreign records: it is decoded, its bad records are put aside, the rest is written once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from lakelog.catalog import Table
from lakelog.common.errors import CorruptDataError
from lakelog.common.types import ROW_KIND_COLUMN
from lakelog.logstore.codec.foreign_members import MemberPath
from lakelog.logstore.codec.foreign_rules import ForeignRules
from lakelog.spark.failures import sentence_first, stopping_quietly
from lakelog.spark.ingesting.counts import BadRecord, Counts, counted
from lakelog.spark.ingesting.dead_letters import LetterBox
from lakelog.spark.ingesting.decoding import Decoder
from lakelog.spark.ingesting.growing import check_grown, grown
from lakelog.spark.ingesting.old_values import NOT_FOUND, ORDER_COLUMN, behind_truncation, with_old_values
from lakelog.spark.sink.alignment import identify_batch
from lakelog.spark.sink.sink import LakelogSink

logger = logging.getLogger("lakelog.spark")

MakeRules = Callable[[Table], ForeignRules]


class OnError(StrEnum):
    """What happens to a record that is malformed, oversized, of another type or unknown."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestedBatch:
    """The outcome of a batch: `input` records were read, `accepted` taken in, `dead` put aside or skipped.

    `left_out` counts values of unknown members of nested columns that were dropped, as drop_unknown_members says.
    """

    table: str
    batch_id: int
    input: int
    accepted: int
    dead: int
    left_out: int = 0

    def log(self) -> None:
        """Write one log line, a warning if records are bad or lose members."""
        level = logging.WARNING if self.dead or self.left_out else logging.INFO
        logger.log(
            level,
            "batch %d of table %s: %d records, %d taken in, %d bad%s",
            self.batch_id,
            self.table,
            self.input,
            self.accepted,
            self.dead,
            f", {self.left_out} values of unknown members left out" if self.left_out else "",
        )


@dataclass(slots=True, kw_only=True)
class IngestSink:
    """The foreachBatch function of an ingest: turns records into changes of the table and dead letters.

    `letters` takes the bad records with DEAD_LETTER. `orders_truncations` says that the topic has one partition.
    """

    sink: LakelogSink
    make_rules: MakeRules
    on_error: OnError
    letters: LetterBox | None
    topic: str
    topic_id: str
    orders_truncations: bool
    commit_user: str | None = None
    task_count: int | None = None
    last: IngestedBatch | None = None
    _visited_run: str | None = None
    _refused: Mapping[MemberPath, str] = field(default_factory=dict)

    @property
    def table(self) -> Table:
        """The table, with the columns that batches have added."""
        return self.sink.table

    @stopping_quietly()
    @sentence_first()
    def __call__(self, records: DataFrame, batch_id: int) -> None:
        """Take in one whole batch, once. With FAIL it raises CorruptDataError for a bad record, and writes nothing."""
        micro = identify_batch(records, batch_id, commit_user=self.commit_user)
        self.sink.check_checkpoint(micro)
        kept: frozenset[tuple[int, int]] = frozenset()
        if self.letters is not None and (micro.run is None or micro.run != self._visited_run):
            kept = self.letters.kept(topic_id=self.topic_id, writer=micro.user, batch_id=batch_id)
        decoded, counts = self._decoded(records, kept)
        try:
            if counts.has_new:
                decoded.unpersist()
                self.sink.table, self._refused = grown(self.table, counts, self._refused)
                decoded, counts = self._decoded(records, kept)
                check_grown(self.table, counts)
            decoded, counts = self._with_old_values(decoded, counts)
            assert counts.accepted + counts.dead == counts.input, f"{counts} does not add up"
            self._put_aside(decoded, counts, writer=micro.user, batch_id=batch_id)
            self._write(decoded, counts, batch_id)
        finally:
            decoded.unpersist()
        self._visited_run = micro.run
        self.last = IngestedBatch(
            table=self.table.name,
            batch_id=batch_id,
            input=counts.input,
            accepted=counts.accepted,
            dead=counts.dead,
            left_out=counts.left_out,
        )
        self.last.log()

    def _decoded(self, records: DataFrame, kept: frozenset[tuple[int, int]]) -> tuple[DataFrame, Counts]:
        """The rows of the records, persisted in Spark, and their counts: the batch's only pass over the topic."""
        rules = replace(self.make_rules(self.table), refused=self._refused)
        decoder = replace(Decoder.of(self.table, rules, orders_truncations=self.orders_truncations), kept=kept)
        return counted(records.mapInArrow(decoder, decoder.schema), self.table)

    def _with_old_values(self, decoded: DataFrame, counts: Counts) -> tuple[DataFrame, Counts]:
        """The rows with the values that their records left out; rows without such a value become dead letters."""
        if not counts.unavailable:
            return decoded, counts
        found = with_old_values(decoded, self.table, counts.unavailable).persist(StorageLevel.MEMORY_AND_DISK)
        lost = found.where(sf.col("reason") == NOT_FOUND)
        lost_count = lost.count()
        decoded.unpersist()
        if not lost_count:
            return found, counts
        one = lost.orderBy("partition", "offset").first()
        assert one is not None
        first = BadRecord(topic=self.topic, partition=one.partition, offset=one.offset, reason=one.reason)
        return found, replace(
            counts,
            accepted=counts.accepted - lost_count,
            dead=counts.dead + lost_count,
            first_bad=counts.first_bad or first,
        )

    def _put_aside(self, decoded: DataFrame, counts: Counts, *, writer: str, batch_id: int) -> None:
        new = counts.dead - counts.kept
        if not new:
            return
        bad = counts.first_bad
        assert bad is not None
        if self.on_error is OnError.FAIL:
            raise CorruptDataError(
                f"table {self.table.name}: {counts.dead} of {counts.input} records cannot be taken in; the first: topic"
                f" {bad.topic}, partition {bad.partition}, offset {bad.offset}: {bad.reason}. Nothing of batch"
                f" {batch_id} is written. Mend the table or the connector and start again, or go on with"
                " on_error='dead-letter', which keeps such records, or 'skip'"
            )
        if self.letters is None:
            logger.warning("%d records are skipped; the first is %s", new, bad)
            return
        self.letters.write(
            decoded.where(sf.col("reason").isNotNull()),
            topic=self.topic,
            writer=writer,
            batch_id=batch_id,
        )

    def _write(self, decoded: DataFrame, counts: Counts, batch_id: int) -> None:
        rows = decoded.where(sf.col("row").isNotNull())
        if counts.truncation is None:
            self.sink(rows.select("row.*", ROW_KIND_COLUMN), batch_id)
            return
        ordered = LakelogSink(
            self.table, commit_user=self.commit_user, order_by=ORDER_COLUMN, task_count=self.task_count
        )
        ordered(behind_truncation(rows, self.table, counts.truncation), batch_id)

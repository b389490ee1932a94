"""Take dead letters in again, after the table or the rules were fixed.

The letters are read as a stream of the table that keeps them, so that any number of them fits in memory. Letters that
can be taken in now are written to the table, then deleted; the others stay, with their present reason.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakelog.catalog import Catalog, Table
from lakelog.common.column_names import given_names
from lakelog.common.types import ROW_KIND_COLUMN
from lakelog.logstore.codec.foreign_members import MemberPath
from lakelog.logstore.codec.foreign_records import RECORD_BYTES_MAX
from lakelog.logstore.codec.foreign_unavailable import UNAVAILABLE
from lakelog.spark.data_source import register
from lakelog.spark.failures import sentence_first, stopping_quietly
from lakelog.spark.ingesting.counts import Counts, counted
from lakelog.spark.ingesting.dead_letters import LetterBox, letter_box
from lakelog.spark.ingesting.decoding import Decoder
from lakelog.spark.ingesting.growing import check_grown, grown
from lakelog.spark.ingesting.old_values import with_old_values
from lakelog.spark.ingesting.rules import RulesOf, parse_forms, parse_partition_changes, parse_size
from lakelog.spark.session import FORMAT
from lakelog.spark.sink.sink import LakelogSink, start_stream
from lakelog.spark.tables import TableName, resolve_table

logger = logging.getLogger("lakelog.spark")

_PLACE = ("topic_id", "partition", "offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedLetters:
    """What a replay did: `letters` were read, `accepted` are in the table now, `dead` are still letters."""

    letters: int
    accepted: int
    dead: int


def replay_dead_letters(
    spark: SparkSession,
    table: TableName,
    *,
    catalog: Catalog | None = None,
    warehouse: str | Path | None = None,
    checkpoint_location: str | Path,
    dead_letter_table: Table | str | None = None,
    where: str | None = None,
    merge_schema: bool = False,
    drop_unknown_members: bool = False,
    ignore_columns: str | Sequence[str] = (),
    max_record_bytes: int | str = RECORD_BYTES_MAX,
    unavailable_value: str = UNAVAILABLE,
    binary_handling_mode: str = "bytes",
    decimal_handling_mode: str = "precise",
    time_precision_mode: str = "adaptive",
    time_units: Mapping[str, str] | None = None,
    partition_changes: str = "before",
) -> ReplayedLetters:
    """Take the dead letters of a table in again, in the order of their offsets, and wait for the end.

    They become new changes: a row that has changed since its record is changed back. `where` is an SQL condition on the
    letters, such as `reason LIKE 'missing%'`. A replay that was killed continues when it is called again with the same
    `checkpoint_location`, a folder of its own. The other arguments are those of `ingest`.

    Raises NotFoundError for a table without dead letters, InvalidRequestError for what does not fit.
    """
    opened = resolve_table(table, catalog=catalog, warehouse=warehouse, session=spark)
    letters = letter_box(opened, dead_letter_table, catalog=catalog, creates=False)
    newest = letters.table.snapshot()
    if newest is None:
        return ReplayedLetters(letters=0, accepted=0, dead=0)
    register(spark)
    rules = RulesOf(
        takes_new_columns=merge_schema,
        drops_members=drop_unknown_members,
        ignored=given_names(ignore_columns, what="ignore_columns"),
        bytes_max=parse_size(max_record_bytes, what="max_record_bytes"),
        unavailable=unavailable_value,
        forms=parse_forms(
            binaries=binary_handling_mode,
            decimals=decimal_handling_mode,
            times=time_precision_mode,
            units=time_units,
        ),
        keys_stay=parse_partition_changes(partition_changes),
    )
    sink = ReplaySink(sink=LakelogSink(opened, writer_name="replay"), rules=rules, letters=letters, where=where)
    stream = spark.readStream.format(FORMAT).option("path", letters.table.path).load()
    query = start_stream(
        stream,
        sink.sink,
        sink,
        checkpoint_location=f"{checkpoint_location}/{_attempt(newest.id, opened, rules, where)}",
        available_now=True,
    )
    query.awaitTermination()
    counts = sink.counts
    logger.info(
        "%d dead letters of table %s: %d taken in, %d left", counts.input, opened.name, counts.accepted, counts.dead
    )
    return ReplayedLetters(letters=counts.input, accepted=counts.accepted, dead=counts.dead)


def _attempt(snapshot_id: int, table: Table, rules: RulesOf, where: str | None) -> str:
    """The name of a replay: one that was killed continues only if nothing was fixed since; else it begins again.

    A batch that is in the table is not written again, so letters that fit only after a fix would be deleted unwritten.
    """
    text = f"{table.schema.id} {rules} {where}"
    return f"replay-{snapshot_id}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


@dataclass(slots=True, kw_only=True)
class ReplaySink:
    """The foreachBatch function of a replay: turns letters into changes of the table."""

    sink: LakelogSink
    rules: RulesOf
    letters: LetterBox
    where: str | None
    counts: Counts = field(default_factory=Counts)
    _refused: Mapping[MemberPath, str] = field(default_factory=dict)

    @stopping_quietly()
    @sentence_first()
    def __call__(self, letters: DataFrame, batch_id: int) -> None:
        """Take in one batch of letters."""
        asked = letters.where(sf.col("table_name") == self.letters.target)
        if self.where is not None:
            asked = asked.where(self.where)
        ordered = asked.coalesce(1).sortWithinPartitions(*_PLACE).persist(StorageLevel.MEMORY_AND_DISK)
        decoded, counts = self._decoded(ordered)
        try:
            if counts.has_new:
                decoded.unpersist()
                self.sink.table, self._refused = grown(self.sink.table, counts, self._refused)
                decoded, counts = self._decoded(ordered)
                check_grown(self.sink.table, counts)
            if counts.unavailable:
                decoded = with_old_values(decoded, self.sink.table, counts.unavailable).persist()
                lost = decoded.where(sf.col("reason").isNotNull()).count() - counts.dead
                counts = replace(counts, accepted=counts.accepted - lost, dead=counts.dead + lost)
            self.sink(decoded.where(sf.col("row").isNotNull()).select("row.*", ROW_KIND_COLUMN), batch_id)
            left = decoded.where(sf.col("reason").isNotNull()).select("partition", "offset", "topic_id")
            self.letters.remove(ordered.join(left, on=list(_PLACE), how="left_anti"))
        finally:
            decoded.unpersist()
            ordered.unpersist()
        self.counts += counts

    def _decoded(self, letters: DataFrame) -> tuple[DataFrame, Counts]:
        table = self.sink.table
        rules = replace(self.rules(table), refused=self._refused)
        decoder = Decoder.of(table, rules, orders_truncations=False)
        records = letters.select("key", "value", "topic", "partition", "offset", "timestamp", "topic_id")
        return counted(records.mapInArrow(decoder, decoder.schema), table)

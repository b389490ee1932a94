"""Dead letters: the records that a table could not take, as rows of another table.

The key of a dead letter is the position of its record, so that it is stored once however often its batch runs. Letters
are written before anything of their batch is logged or committed. A batch that runs again does not decide again: a
record that became a dead letter in the first attempt stays one, since parts of the batch may already be in the table's
log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.quoting import listed
from lakelog.filestore import FileStoreTable
from lakelog.filestore.write import row_source
from lakelog.spark.worker import MESSAGE_SCHEMA, MESSAGE_TYPE, spare_modules_from_collection

SUFFIX = "_dead_letters"
KEY = ("table_name", "topic_id", "partition", "offset")
COLUMNS = (
    "table_name STRING NOT NULL COMMENT 'the table that could not take the record', "
    "topic_id STRING NOT NULL COMMENT 'the id that Kafka gave the topic', "
    "`partition` INT NOT NULL, `offset` BIGINT NOT NULL, topic STRING NOT NULL, "
    "`timestamp` TIMESTAMP COMMENT 'of the record', "
    "reason STRING NOT NULL COMMENT 'why the record is bad', "
    "`key` BINARY COMMENT 'the bytes of the record key', `value` BINARY COMMENT 'the bytes of the record', "
    "writer STRING NOT NULL COMMENT 'the query that has read the record', "
    "batch BIGINT NOT NULL COMMENT 'its micro-batch'"
)
_NAMES = (
    "table_name",
    "topic_id",
    "partition",
    "offset",
    "topic",
    "timestamp",
    "reason",
    "key",
    "value",
    "writer",
    "batch",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterBox:
    """The dead letters of one table, `target`, in the table that keeps them."""

    table: Table
    target: str

    def write(self, letters: DataFrame, *, topic: str, writer: str, batch_id: int) -> None:
        """Write the bad records of a batch durably. Repeating this changes nothing."""
        constants: dict[str, str | int] = {
            "table_name": self.target,
            "topic": topic,
            "writer": writer,
            "batch": batch_id,
        }
        self._write(letters, constants, "+I")

    def remove(self, letters: DataFrame) -> None:
        """Delete letters: rows with all columns of the table."""
        self._write(letters, {}, "-D")

    def kept(self, *, topic_id: str, writer: str, batch_id: int) -> frozenset[tuple[int, int]]:
        """The positions, (partition, offset), of the letters that earlier attempts of a batch have written."""
        where = (
            f"table_name = '{_text(self.target)}' AND topic_id = '{_text(topic_id)}' AND writer = '{_text(writer)}'"
            f" AND batch = {batch_id}"
        )
        found = self.table.to_arrow(columns=["partition", "offset"], where=where)
        return frozenset(zip(*(found.column(name).to_pylist() for name in ("partition", "offset")), strict=True))

    def _write(self, letters: DataFrame, constants: Mapping[str, str | int], kind: str) -> None:
        columns: list[Column] = [
            sf.lit(constants[name]).alias(name) if name in constants else sf.col(f"`{name}`") for name in _NAMES
        ]
        body = LettersWrite(table=self.table.store, kind=kind)
        rows = letters.select(*columns).coalesce(1)  # one snapshot per batch
        rows.mapInArrow(body, MESSAGE_TYPE).collect()


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersWrite:
    """The body of mapInArrow that writes its rows into a table, in one snapshot."""

    table: FileStoreTable
    kind: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakelog.filestore.write import parsed_kinds  # noqa: PLC0415  # imported where it is used

        spare_modules_from_collection()
        given = (batch for batch in batches if batch.num_rows)
        first = next(given, None)
        if first is not None:
            reader = pa.RecordBatchReader.from_batches(first.schema, _chained(first, given))
            self.table.write(row_source(reader), mode="append", kinds=parsed_kinds(self.kind))
        yield pa.RecordBatch.from_arrays([pa.nulls(0, pa.binary())], schema=MESSAGE_SCHEMA)


def _chained(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def letter_box(target: Table, name: Table | str | None, *, catalog: Catalog | None, creates: bool = True) -> LetterBox:
    """The dead letters of `target`: in the table `name`, or beside it in `<table>_dead_letters`; created if missing.

    Raises InvalidRequestError for a table that cannot hold dead letters, NotFoundError without `creates`.
    """
    if isinstance(name, Table):
        return LetterBox(table=_checked(name, target), target=target.name)
    if name is None and target.identifier is None:
        raise InvalidRequestError(
            f"table {target.name} is outside of a warehouse: name the table of its dead letters (dead_letter_table), an"
            " open table"
        )
    identifier = name or f"{target.identifier}{SUFFIX}"
    warehouse = catalog or Catalog(target.warehouse)
    try:
        found = warehouse.load_table(identifier)
    except NotFoundError:
        if not creates:
            raise
        found = warehouse.create_table(
            identifier,
            schema=COLUMNS,
            primary_keys=list(KEY),
            comment=f"records that {target.name} could not take",
            if_not_exists=True,
        )
    return LetterBox(table=_checked(found, target), target=target.name)


def _checked(table: Table, target: Table) -> Table:
    if table.path == target.path:
        raise InvalidRequestError(
            f"table {target.name} cannot hold its own dead letters; name another dead_letter_table"
        )
    missing = [name for name in _NAMES if name not in table.schema.field_names]
    if missing or tuple(table.schema.primary_keys) != KEY or table.log is not None:
        raise InvalidRequestError(
            f"table {table.name} cannot hold dead letters: it lacks the column(s) {listed(missing) or 'none'}, its"
            f" primary key is {listed(table.schema.primary_keys) or 'none'}, expected {listed(KEY)}, and no log; name a"
            " table that does not exist: it will be created"
        )
    return table


def _text(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")

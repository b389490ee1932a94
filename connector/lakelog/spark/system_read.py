"""System tables by `spark.read.format("lakelog").load("/lake/db.db/t$files")`, and by the option `table`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any  # Any: values of options

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lakelog.catalog import Catalog, open_table
from lakelog.common.errors import InvalidRequestError, OptionError
from lakelog.common.options import Option
from lakelog.filestore.io import store_options
from lakelog.filestore.predicate import predicate_of
from lakelog.spark.failures import sentence_first
from lakelog.spark.options import COLUMNS, PATH, READ_OPTIONS, TABLE, TIMEZONE, WAREHOUSE, WHERE, known_options
from lakelog.spark.session import session_zone
from lakelog.spark.types import spark_arrow_schema, to_spark_schema
from lakelog.streams.options.shown_state import PAIMON_STATE_OPTIONS, SCAN_BRANCH, STATE_OPTIONS, branch_of, parse_state
from lakelog.streams.reading.part_rows import conform
from lakelog.warehouse.system_names import split_name

if TYPE_CHECKING:
    from lakelog.filestore.system import SystemTable


def _range(text: str) -> tuple[int, int]:
    first, last = (int(part) for part in text.split(","))
    return first, last


INCREMENTAL: Option[tuple[int, int] | None] = Option(
    key="incremental-between",
    parse=_range,
    default=None,
    doc="Of `$audit_log` and `$binlog`: the changes after the first of these snapshots, up to and with the second.",
    kind="two snapshots, such as 3,7",
)
_STATES = (INCREMENTAL, *STATE_OPTIONS, *PAIMON_STATE_OPTIONS, SCAN_BRANCH)
_STATE_KEYS = frozenset(option.key for option in _STATES)
_OPTIONS = (PATH, TABLE, WAREHOUSE, COLUMNS, WHERE, TIMEZONE, *_STATES)


def open_system_table(given: Mapping[str, str], *, or_stream: bool = False) -> SystemTable:
    """The system table that the options name; with `or_stream`, they may be the options of a stream of it.

    Raises OptionError, InvalidRequestError, NotFoundError.
    """
    options = {key.lower(): value for key, value in given.items()}
    access = store_options(options)
    known = (*_OPTIONS, *READ_OPTIONS) if or_stream else _OPTIONS
    options = known_options({key: value for key, value in options.items() if key not in access}, known)
    name, warehouse = TABLE.of(options) or PATH.of(options), WAREHOUSE.of(options)
    which = _state(options)
    try:
        return _opened(name, warehouse, access, which)
    except InvalidRequestError as error:
        named = [f"{key}={options[key]}" for key in options if key in _STATE_KEYS]
        raise InvalidRequestError(f"{', '.join(named)}: {error}" if named else str(error)) from error


def _opened(name: str, warehouse: str, access: Mapping[str, str], which: Mapping[str, Any]) -> SystemTable:
    if warehouse and "/" not in name:
        return Catalog(warehouse, options=access).system_table(name, **which)
    parts = split_name(name)
    if parts.system is None or ("/" not in name and not Path(parts.table).exists()):
        raise InvalidRequestError(
            f"{name!r} is an identifier: give the option 'warehouse' with it, or name the table's folder"
        )
    table = open_table(parts.table, options=access)
    return (table if parts.branch is None else table.branch(parts.branch)).system.table(parts.system, **which)


def _state(options: Mapping[str, str]) -> dict[str, Any]:
    which = {**parse_state(options, TIMEZONE.of(options)).choice, "branch": branch_of(options)}
    changes = INCREMENTAL.of(options)
    found = {key: value for key, value in which.items() if value is not None}
    return found if changes is None else {**found, "after": changes[0], "up_to": changes[1]}


def system_schema(given: Mapping[str, str]) -> spark.StructType:
    """The columns that the options choose; Spark does not say whether for a read or a stream."""
    table = open_system_table(given, or_stream=True)
    chosen = COLUMNS.of({key.lower(): value for key, value in given.items()})
    by_name = {field.name: field for field in table.fields}
    unknown = [name for name in chosen if name not in by_name]
    if unknown:
        raise OptionError(f"{table.name} has no column {', '.join(unknown)}; its columns are {', '.join(by_name)}")
    return to_spark_schema([by_name[name] for name in chosen] if chosen else table.fields)


def system_frame(
    session: SparkSession, name: str, *, catalog: Catalog | None, warehouse: str | Path | None, **what: Any
) -> DataFrame:
    """A system table as a DataFrame; its rows are read now, in this process."""
    parts, columns, where = split_name(name), what.pop("columns"), what.pop("where")
    which = {key: value for key, value in what.items() if value is not None}
    if catalog is None and warehouse is None:
        assert parts.system is not None, "only names of system tables come here"
        table = open_table(parts.table)
        found = (table if parts.branch is None else table.branch(parts.branch)).system.table(parts.system, **which)
    else:
        found = (catalog or Catalog(str(warehouse))).system_table(name, **which)
    condition = predicate_of(where, zone=session_zone(session))
    return session.createDataFrame(found.to_arrow(columns=columns, where=condition))


class SystemReader(DataSourceReader):
    """Reads a system table in one task."""

    def __init__(self, options: Mapping[str, str], schema: spark.StructType) -> None:
        """Read nothing yet. Raises OptionError for options of streams."""
        open_system_table(options)
        self._options = dict(options)
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """One partition."""
        return [InputPartition(None)]

    @sentence_first()
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002  # there is one
        """The rows, in a worker."""
        table = open_system_table(self._options)
        options = {key.lower(): value for key, value in self._options.items()}
        where = predicate_of(WHERE.of(options) or None, zone=str(TIMEZONE.of(options)))
        schema = spark_arrow_schema(self._schema)
        for batch in table.to_batches(columns=schema.names, where=where):
            yield conform(batch, schema)

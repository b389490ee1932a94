"""What writes by `format("lakelog")` record of their sources: they do not see the plan of their query.

A batch write records what its options declare. A streaming write finds in the checkpoint how far its streams have read,
and which of them are tables of lakelog; what is joined to them is what its options declare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from lakelog.catalog import Table
from lakelog.common.errors import CorruptDataError
from lakelog.filestore.io.path_forms import warehouse_of
from lakelog.filestore.table import FileStoreTable
from lakelog.lineage.declared import declared_sources, with_lineage
from lakelog.lineage.record import BatchLineage, Source, UnknownSource
from lakelog.protocol.state import Batch
from lakelog.spark.options import declared_lineage, takes_over_job
from lakelog.spark.sink.alignment import local_path, text_of
from lakelog.spark.sink.capture import OPERATION, is_captured, named_job, unique, unknown
from lakelog.spark.sink.checkpoint import parse_offset_log
from lakelog.spark.sink.offset_lines import NOTHING_READ, source_of_lines

_QUERY_NAME = "queryName"
_NO_PLAN = (
    "a write by format('lakelog') does not see the plan of its query: name what it reads in the option lineage.sources"
)


def with_declared(table: Table, options: Mapping[str, str]) -> Table:
    """The table, by a handle whose commit records what the options of a batch write declare. Raises OptionError."""
    job, names = declared_lineage(options)
    if not is_captured(table._files):
        return table
    return with_lineage(table, BatchLineage(job=job, sources=_declared(names, table._files)))


def _declared(names: tuple[str, ...] | None, table: FileStoreTable) -> tuple[Source, ...]:
    if names is None:
        return (UnknownSource(why=_NO_PLAN),)
    return declared_sources(names, warehouse_of(table.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDeclaration:
    """What the options of a streaming write say of its lineage. `names` None is nothing."""

    job: str | None
    names: tuple[str, ...] | None
    takes_over: bool

    @classmethod
    def of(cls, options: Mapping[str, str]) -> StreamDeclaration:
        """Raises OptionError."""
        job, names = declared_lineage(options)
        spelled = {key.lower(): value for key, value in options.items()}
        return cls(job=job or spelled.get(_QUERY_NAME.lower()), names=names, takes_over=takes_over_job(options))

    def recorded(self, batch: Batch, table: FileStoreTable, query_id: str | None, checkpoint: str | None) -> Batch:
        """The batch with what its commit records."""
        if not is_captured(table):
            return batch
        lineage = BatchLineage(
            job=self.job or query_id,
            query_id=query_id,
            batch_id=batch.identifier,
            operation=OPERATION,
            sources=unique([*_of_checkpoint(checkpoint, batch.identifier), *_declared(self.names, table)]),
        )
        return replace(batch, lineage=lineage.to_json(), job=named_job(lineage))


def _of_checkpoint(checkpoint: str | None, batch_id: int) -> list[Source]:
    """What the streams of a batch have read, by the checkpoint; nothing where Python cannot read it by itself."""
    folder = None if checkpoint is None else local_path(checkpoint)
    if folder is None:
        return [UnknownSource(why="the checkpoint of the query is not on a file system that Python reads by itself")]
    try:
        ends = _lines(folder / "offsets" / str(batch_id))
        starts = _lines(folder / "offsets" / str(batch_id - 1)) if batch_id else [NOTHING_READ] * len(ends)
        return [source_of_lines(start, end) for start, end in zip(starts, ends, strict=True)]
    except Exception as error:  # noqa: BLE001  # the batch is written whatever its analysis meets
        return [unknown(error)]


def _lines(path: Path) -> list[str]:
    text = text_of(path)
    if text is None:
        raise CorruptDataError(f"{path} is not in the checkpoint")
    return parse_offset_log(text, path=str(path))

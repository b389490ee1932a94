"""What writes by `format("lakelog")` record about their sources: they do not see the plan of their query.

A batch write records what its options declare. A streaming write finds in the checkpoint how far its streams have read,
and which of them are lakelog tables; its options declare what is joined to them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from lakelog.catalog import Table
from lakelog.common.errors import CorruptDataError, LakelogError
from lakelog.filestore import FileStoreTable
from lakelog.filestore.io import warehouse_of
from lakelog.filestore.metadata.origins import BatchLineage, ReadMode, Source, TableSource, UnknownSource
from lakelog.filestore.metadata.tables import identity_of
from lakelog.lineage.columns.declared_fields import with_fields_by_name
from lakelog.lineage.records.sources import declared_sources, declared_table, source_of_table, with_lineage
from lakelog.protocol.state import Batch
from lakelog.spark.capture.capture import OPERATION, is_captured, named_job, sources_or_unknown, unique
from lakelog.spark.capture.checkpoint import NOTHING_READ, parse_offset_log, source_of_lines
from lakelog.spark.options import declared_lineage, takes_over_job
from lakelog.spark.sink.checkpoint_folders import local_path, text_of

logger = logging.getLogger("lakelog.spark")

FindBranch = Callable[[str, str], TableSource | None]
_QUERY_NAME = "queryName"
_NO_PLAN = (
    "a write by format('lakelog') does not see the plan of its query: name what it reads in the option lineage.sources"
)


def with_declared(table: Table, options: Mapping[str, str]) -> Table:
    """The table, by a handle whose commit records what the options of a batch write declare. Raises OptionError."""
    job, names = declared_lineage(options)
    if not is_captured(table.store):
        return table
    record = BatchLineage(job=job, sources=_declared(names, table.store))
    return with_lineage(table, with_fields_by_name(record, table.store))


def _declared(names: tuple[str, ...] | None, table: FileStoreTable) -> tuple[Source, ...]:
    if names is None:
        return (UnknownSource(why=_NO_PLAN),)
    return declared_sources(names, warehouse_of(table.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDeclaration:
    """What the options of a streaming write say about its lineage. `names` None means nothing."""

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
        streams = _of_checkpoint(checkpoint, batch.identifier, self._branches(table))
        lineage = BatchLineage(
            job=self.job or query_id,
            query_id=query_id,
            batch_id=batch.identifier,
            operation=OPERATION,
            sources=unique([*streams, *_beside(streams, _declared(self.names, table))]),
        )
        lineage = with_fields_by_name(lineage, table)
        return replace(batch, lineage=lineage.to_json(), job=named_job(lineage))

    def _branches(self, table: FileStoreTable) -> FindBranch:
        """A function that finds a stream's branch by name, in the written table's warehouse or among the declared."""

        def find(identity: str, name: str) -> TableSource | None:
            for candidate in (name, *(self.names or ())):
                with suppress(LakelogError):
                    found = declared_table(candidate, warehouse_of(table.path))
                    if identity_of(found) == identity:
                        return source_of_table(found, mode=ReadMode.STREAM)
            return None

        return find


def _beside(streams: Sequence[Source], declared: Sequence[Source]) -> list[Source]:
    """The declared sources without the tables of the streams, about which the checkpoint says more than a bare name."""
    lines = {one.line for one in streams if isinstance(one, TableSource)}
    return [one for one in declared if not (isinstance(one, TableSource) and one.end is None and one.line in lines)]


def _of_checkpoint(checkpoint: str | None, batch_id: int, find_branch: FindBranch) -> list[Source]:
    """What the streams of a batch have read, by the checkpoint; nothing if Python cannot read it by itself."""
    folder = None if checkpoint is None else local_path(checkpoint)
    if folder is None:
        return [UnknownSource(why="the checkpoint of the query is not on a file system that Python reads by itself")]

    def found() -> list[Source]:
        ends = _lines(folder / "offsets" / str(batch_id))
        starts = _lines(folder / "offsets" / str(batch_id - 1)) if batch_id else [NOTHING_READ] * len(ends)
        lines = zip(starts, ends, strict=True)
        return [source_of_lines(start, end, find_branch=find_branch) for start, end in lines]

    return sources_or_unknown(found)


def _lines(path: Path) -> list[str]:
    text = text_of(path)
    if text is None:
        raise CorruptDataError(f"{path} is not in the checkpoint")
    return parse_offset_log(text, path=str(path))

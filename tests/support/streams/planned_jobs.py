"""Streaming jobs as Spark runs them, without Spark: planners of real streams, an offset log, and batches run again.

A job keeps what a checkpoint keeps: the ends of each batch, which batches are done, and its state behind each. It can
die at each step between them; started again it does what Spark does.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any  # Any: offsets and rows

import pyarrow as pa

from lakelog.catalog import Catalog, Table
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.metadata.origins.record import BatchLineage, ReadMode
from lakelog.filestore.write.write import write_rows
from lakelog.lineage.records.sources import source_of_table
from lakelog.spark.capture.checkpoint import read_between
from lakelog.spark.data_source import LakelogDataSource
from lakelog.spark.source.streams.source import LakelogStreamReader
from lakelog.streams.reading.offsets import TableMark, offset_from_json

Row = dict[str, Any]
Rows = Mapping[str, Sequence[Row]]
"""The new rows of a batch, by source."""
Transform = Callable[[dict[str, Any], Rows], list[Row]]
"""Changes the state of a job, and gives the rows that it writes."""


class Death(StrEnum):
    """The step behind which a job dies."""

    ASKED_ONE = "asked one"
    PLANNED = "planned"
    LOGGED = "logged"
    COMMITTED = "committed"


class PlannedJob:
    """A job that reads tables as streams and writes one table."""

    def __init__(
        self,
        catalog: Catalog,
        name: str,
        sources: Sequence[str],
        sink: str,
        transform: Transform,
        *,
        options: Mapping[str, str],
    ) -> None:
        self._catalog = catalog
        self._sink = sink
        self._sources = sources
        self._transform = transform
        self._schema = catalog.load_table(sink).to_arrow().schema
        self._options = {"warehouse": catalog.warehouse, **options}
        self.name = name
        self.offsets: list[list[dict[str, Any]]] = []  # the offset log: the ends of each batch
        self.done = 0  # the commit log: how many batches are done
        self.states: list[dict[str, Any]] = [{}]
        self._readers: list[LakelogStreamReader] = []

    def start(self) -> None:
        """Start a run: all streams are asked for their limits, then the last batch is run again."""
        self._readers = [self._reader(source) for source in self._sources]
        for reader in self._readers:
            reader.getDefaultReadLimit()
        if self.done < len(self.offsets):
            self._run(self.done)

    def step(self, dies: Death | None = None) -> bool:
        """A round: a batch where there is something to read; False where there is nothing. It may die at a step."""
        if not self._readers:
            self.start()
        starts = self._starts(len(self.offsets))
        ends = []
        for reader, start in zip(self._readers, starts, strict=True):
            ends.append(reader.latestOffset(start, reader.getDefaultReadLimit()))
            if dies is Death.ASKED_ONE:
                return self._die()
        if dies is Death.PLANNED:
            return self._die()
        if ends == starts:
            return False
        self.offsets.append(json.loads(json.dumps(ends)))
        if len(self.offsets) > 1:  # Spark tells of a batch when the next one is planned
            for reader, end in zip(self._readers, self.offsets[-2], strict=True):
                reader.commit(end)
        if dies is Death.LOGGED:
            return self._die()
        self._run(len(self.offsets) - 1, is_done=dies is not Death.COMMITTED)
        return self._die() if dies is Death.COMMITTED else True

    def _die(self) -> bool:
        self._readers = []
        return True

    def _run(self, batch: int, *, is_done: bool = True) -> None:
        starts, ends = self._starts(batch), self.offsets[batch]
        rows: dict[str, list[Row]] = {}
        for source, reader, start, end in zip(self._sources, self._readers, starts, ends, strict=True):
            worker = pickle.loads(pickle.dumps(reader))
            parts = reader.partitions(start, end) if start != end else []
            rows[source] = [row for part in parts for found in worker.read(part) for row in found.to_pylist()]
        state = pickle.loads(pickle.dumps(self.states[batch]))
        self._commit(batch, self._transform(state, rows), starts if batch else [None] * len(starts), ends)
        if is_done:
            self.done = batch + 1
        self.states[batch + 1 :] = [state]

    def _commit(self, batch: int, rows: list[Row], starts: Sequence[Any], ends: Sequence[Any]) -> None:
        table = self._catalog.load_table(self._sink)
        store = table.store
        sources = [
            read_between(source_of(self._catalog.load_table(name)), parsed(start), parsed(end))
            for name, start, end in zip(self._sources, starts, ends, strict=True)
        ]
        record = BatchLineage(job=self.name, query_id=self.name, batch_id=batch, sources=sources)
        live = store.live_files.of(store.snapshots.latest())
        data = pa.Table.from_pylist(rows, schema=self._schema)
        entries = write_rows(store, data, first_sequence=live.next_sequence).entries if rows else []
        named = {"user": self.name, "identifier": batch, **record.to_json()}
        append_commit(
            store, user=self.name, identifier=batch, digest=None, entries=entries, lineage={"batches": [named]}
        )

    def _starts(self, batch: int) -> list[dict[str, Any]]:
        return self.offsets[batch - 1] if batch else [reader.initialOffset() for reader in self._readers]

    def _reader(self, source: str) -> LakelogStreamReader:
        opened = LakelogDataSource({**self._options, "table": source})
        reader = opened.streamReader(opened.schema())
        assert isinstance(reader, LakelogStreamReader)
        return reader


def source_of(table: Table) -> Any:
    """A table as the source of a stream, of which nothing is read."""
    return source_of_table(table.store, mode=ReadMode.STREAM)


def parsed(offset: dict[str, Any] | None) -> Any:
    """An offset of the offset log."""
    if offset is None:
        return None
    return offset_from_json(offset, TableMark(uuid=str(offset["table"]), name=str(offset["name"])))

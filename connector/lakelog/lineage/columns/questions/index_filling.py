"""Fills the index with all that is known: names, writes, runs, and the edges of each write."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from dataclasses import astuple

from lakelog.common.quoting import unicode_of
from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_edges import Dataset, Edges, SourceField
from lakelog.lineage.columns.field_runs import FieldRun
from lakelog.lineage.columns.known_fields import KnownFields
from lakelog.lineage.columns.questions.index_schema import INDEXES, KIND_NUMBERS, TABLES, VERSION
from lakelog.lineage.columns.questions.present_names import NamedDataset, NamedField, PresentNames

FINGERPRINT = "fingerprint"
VERSION_KEY = "version"
_Row = tuple[object, ...]


def fingerprint_of(known: KnownFields) -> str:
    """Identifies what an index is built from."""
    state = hashlib.sha256(str(VERSION).encode())
    for run in sorted(known.runs, key=lambda one: (one.key, one.first_millis)):
        state.update(_bytes(astuple(run)))
    for checksum in sorted(known.documents):
        state.update(checksum.encode())
    state.update(_bytes(sorted(known.lost.items())))
    for table in known.tables:
        state.update(_bytes((table.dataset, table.uuid, [astuple(column) for column in table.columns])))
    return state.hexdigest()


def fill(connection: sqlite3.Connection, known: KnownFields, fingerprint: str) -> None:
    """Create the tables of the index in an empty database, and fill them."""
    connection.executescript(TABLES)
    with connection:
        _Filling(connection, known).fill()
        pairs = [(VERSION_KEY, str(VERSION)), (FINGERPRINT, fingerprint)]
        connection.executemany("INSERT INTO meta VALUES (?, ?)", pairs)
    connection.executescript(INDEXES)


def _bytes(found: object) -> bytes:
    return json.dumps(found, default=str).encode() + b"\n"


class _Filling:
    def __init__(self, connection: sqlite3.Connection, known: KnownFields) -> None:
        self._connection = connection
        self._known = known
        self._names = PresentNames(known.tables)

    def fill(self) -> None:
        writes: dict[tuple[int, str], int] = {}
        runs: list[_Row] = []
        newest = sorted(self._known.runs, key=lambda one: (one.last_millis, one.key), reverse=True)
        sinks = [self._sink_of(run) for run in newest]  # all tables have their names before their sources
        for run, sink in zip(newest, sinks, strict=True):
            key = sink.id, run.checksum
            if key not in writes:
                writes[key] = len(writes)
                self._put_write(writes[key], sink, run.checksum)
            runs.append(_row_of(run, writes[key]))
        self._put("runs", runs)
        self._put_names()
        contents = [(checksum, one.to_json(), None) for checksum, one in self._known.documents.items()]
        lost = [(checksum, None, why) for checksum, why in self._known.lost.items() if checksum not in
                self._known.documents]  # fmt: skip
        self._put("documents", [*contents, *lost])

    def _sink_of(self, run: FieldRun) -> NamedDataset:
        if run.is_foreign and not self._names.has_table(run.sink_uuid, run.sink_line):
            return self._names.of_name(run.sink)
        return self._names.of_table(run.sink_uuid, run.sink, run.sink_line)

    def _put_write(self, write: int, sink: NamedDataset, checksum: str) -> None:
        document = self._known.documents.get(checksum)
        is_approximate = document is None or document.is_approximate
        self._put("writes", [(write, sink.id, checksum, is_approximate)])
        if document is not None:
            self._put_document(write, sink, document)

    def _put_document(self, write: int, sink: NamedDataset, document: FieldDocument) -> None:
        sources = _Sources(self._names, document)
        written: dict[int, _Row] = {}
        edges: list[_Row] = []
        for one in document.lineage.fields:
            target = self._names.field_of(sink, one.name, document.ids.get(one.name))
            before = written.get(target.id, (write, target.id, "", False))
            written[target.id] = (write, target.id, before[2] or one.description, bool(before[3]) or one.is_opaque)
            edges += [(source, target.id, write, *rest) for source, *rest in sources.rows(one.edges)]
        self._put("written", list(written.values()))
        self._put("edges", edges)
        self._put("reads", [(write, one) for one in sorted(sources.datasets())])
        rows = sources.rows(document.lineage.dataset)
        self._put("dataset_edges", [(source, sink.id, write, *rest) for source, *rest in rows])

    def _put_names(self) -> None:
        self._put(
            "datasets",
            [(one.id, *one.dataset, one.uuid, one.line, one.is_present, one.columns) for one in self._names],
        )
        fields = (found for one in self._names for found in {each.id: each for each in one.by_name.values()}.values())
        self._put("fields", [astuple(one) for one in fields])

    def _put(self, table: str, rows: list[_Row]) -> None:
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            values = (tuple(unicode_of(one) if isinstance(one, str) else one for one in row) for row in rows)
            self._connection.executemany(f"INSERT INTO {table} VALUES ({marks})", values)


class _Sources:
    """The source fields of one document, under their present names."""

    def __init__(self, names: PresentNames, document: FieldDocument) -> None:
        self._names = names
        self._document = document
        self._tables = {one.dataset: one for one in document.sources}
        self._columns = {one.dataset: {column.name: column for column in one.columns} for one in document.sources}
        self._found: dict[SourceField, NamedField] = {}
        self._rows: dict[Edges, list[_Row]] = {}

    def datasets(self) -> set[int]:
        """What is read, also without a field."""
        return {self._owner(one).id for one in (*self._document.lineage.sources(), *self._tables)}

    def rows(self, edges: Edges) -> list[_Row]:
        """(source, kind, masked, path) of each edge, sorted; fields that are made from the same inputs share them."""
        known = self._rows.get(edges)
        if known is None:
            found = {(self._field(one.source).id, KIND_NUMBERS[one.kind], one.is_masked, _path(one.source)) for one in
                     edges}  # fmt: skip
            known = self._rows[edges] = sorted(found)
        return known

    def _field(self, source: SourceField) -> NamedField:
        found = self._found.get(source)
        if found is None:
            owner = self._owner(source.dataset)
            column = self._columns.get(source.dataset, {}).get(source.column)
            number, type_ = (None, None) if column is None else (column.id, column.type)
            found = self._found[source] = self._names.field_of(owner, source.column, number, type_)
        return found

    def _owner(self, dataset: Dataset) -> NamedDataset:
        table = self._tables.get(dataset)
        return self._names.of_name(dataset) if table is None else self._names.of_table(table.uuid, dataset)


def _path(source: SourceField) -> str:
    """The fields of structs below the column; empty for the column itself."""
    return ".".join(source.path[1:])


def _row_of(run: FieldRun, write: int) -> _Row:
    return (
        None,
        write,
        run.job,
        run.run_id,
        run.query_id,
        run.operation,
        run.first_batch,
        run.last_batch,
        run.first_millis,
        run.last_millis,
        run.first_snapshot,
        run.last_snapshot,
        run.is_foreign,
    )

"""Fills the index with all that is known: names, writes, runs, and the edges of each write."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from lakelog.common.quoting import unicode_of
from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_edges import ALL_ROWS, Dataset, EdgeKind, Edges, SourceField
from lakelog.lineage.columns.field_runs import FieldRun, KnownFields
from lakelog.lineage.columns.questions.index_schema import INDEXES, KIND_NUMBERS, TABLES, VERSION
from lakelog.lineage.columns.questions.present_names import NamedDataset, NamedField, PresentNames

VERSION_KEY, FINGERPRINT, RUNS_FINGERPRINT = "version", "fingerprint", "runs"
_Row = tuple[object, ...]


class Fingerprints(NamedTuple):
    """Identify what an index is built from: everything but when runs were, and everything."""

    lasting: str
    whole: str


def fingerprints_of(known: KnownFields) -> Fingerprints:
    """The fingerprints of what is known."""
    state = hashlib.sha256(str(VERSION).encode())
    for key in sorted({_write_key(run) for run in known.runs}):
        state.update(key.encode())
    for checksum in sorted(known.documents):
        state.update(checksum.encode())
    state.update(_bytes(sorted(known.lost.items())))
    for table in known.tables:
        columns = [(column.name, column.id, column.type) for column in table.columns]
        state.update(_bytes((table.dataset, table.uuid, columns)))
    lasting = state.hexdigest()
    for run in sorted(known.runs, key=lambda one: (one.key, one.first_millis)):
        state.update(_bytes((_write_key(run), _row_of(run, 0))))
    return Fingerprints(lasting, state.hexdigest())


def fill(connection: sqlite3.Connection, known: KnownFields, fingerprints: Fingerprints) -> None:
    """Create the tables of the index in an empty database, and fill them."""
    connection.executescript(TABLES)
    with connection:
        _Filling(connection, known).fill()
        pairs = [
            (VERSION_KEY, str(VERSION)),
            (FINGERPRINT, fingerprints.lasting),
            (RUNS_FINGERPRINT, fingerprints.whole),
        ]
        connection.executemany("INSERT INTO meta VALUES (?, ?)", pairs)
    connection.executescript(INDEXES)


def put_runs(connection: sqlite3.Connection, known: KnownFields, fingerprints: Fingerprints) -> None:
    """Replace the runs of an index whose lasting fingerprint is the same: all else is as it was."""
    with connection:
        writes = dict(connection.execute("SELECT key, write FROM write_keys").fetchall())
        connection.execute("DELETE FROM runs")
        _put(connection, "runs", [_row_of(run, writes[_write_key(run)]) for run in known.runs])
        connection.execute("UPDATE meta SET value = ? WHERE key = ?", (fingerprints.whole, RUNS_FINGERPRINT))


def _bytes(found: object) -> bytes:
    return json.dumps(found, default=str).encode() + b"\n"


def _write_key(run: FieldRun) -> str:
    """What decides to which write a run belongs."""
    return json.dumps([*run.sink, run.sink_uuid, run.sink_line, run.is_foreign, run.checksum])


def _put(connection: sqlite3.Connection, table: str, rows: Sequence[_Row]) -> None:
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)


class _Filling:
    def __init__(self, connection: sqlite3.Connection, known: KnownFields) -> None:
        self._connection = connection
        self._known = known
        self._names = PresentNames(known.tables)

    def fill(self) -> None:
        writes: dict[tuple[int, str], int] = {}
        keys: dict[str, int] = {}
        runs: list[_Row] = []
        newest = sorted(self._known.runs, key=lambda one: (one.last_millis, one.key), reverse=True)
        sinks = [self._sink_of(run) for run in newest]  # all tables have their names before their sources
        for run, sink in zip(newest, sinks, strict=True):
            key = sink.id, run.checksum
            if key not in writes:
                writes[key] = len(writes)
                self._put_write(writes[key], sink, run.checksum)
            keys[_write_key(run)] = writes[key]
            runs.append(_row_of(run, writes[key]))
        self._put("runs", runs)
        self._put("write_keys", list(keys.items()))
        self._put_names()
        documents = self._known.documents
        self._put("documents", [(checksum, one.to_json(), None) for checksum, one in documents.items()])
        lost = [(checksum, why) for checksum, why in self._known.lost.items() if checksum not in documents]
        self._put("documents", [(checksum, None, unicode_of(why)) for checksum, why in lost])

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
            written[target.id] = (
                write,
                target.id,
                before[2] or unicode_of(one.description),
                bool(before[3]) or one.is_opaque,
            )
            edges += [(source, target.id, write, *rest) for source, *rest in sources.rows(one.edges)]
        self._put("written", list(written.values()))
        self._put("edges", edges)
        self._put("reads", [(write, one) for one in sorted(sources.datasets())])
        rows = sources.rows(document.lineage.dataset)
        rows += sources.whole_rows(without=sink.id)
        self._put("dataset_edges", [(source, sink.id, write, *rest) for source, *rest in rows])

    def _put_names(self) -> None:
        datasets = [
            (one.id, *one.dataset, one.uuid, one.line, one.is_present, one.columns, one.dataset.name.casefold())
            for one in self._names
        ]
        self._put("datasets", datasets)
        fields = (one for owner in self._names for one in owner.by_name.values())
        self._put("fields", [_field_row(one) for one in fields])

    def _put(self, table: str, rows: Sequence[_Row]) -> None:
        _put(self._connection, table, rows)


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
        return {self._owner(one).id for one in (*self._document.lineage.sources(), *self._document.reads)}

    def whole_rows(self, *, without: int) -> list[_Row]:
        """(source, kind, masked, path) for what is read without a field, but for the dataset that is written."""
        owners = [owner for one in sorted(self._document.reads) if (owner := self._owner(one)).id != without]
        kind = KIND_NUMBERS[EdgeKind.ROWS]
        return [(self._names.field_of(owner, ALL_ROWS, None, None).id, kind, False, "") for owner in owners]

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
    return unicode_of(".".join(source.path[1:]))


def _field_row(one: NamedField) -> _Row:
    return (one.id, one.dataset, one.name, one.type, one.number, one.state, one.place, one.name.casefold())


def _row_of(run: FieldRun, write: int) -> _Row:
    return (
        None,
        write,
        _text(run.job),
        _text(run.run_id),
        _text(run.query_id),
        _text(run.operation),
        run.first_batch,
        run.last_batch,
        run.first_millis,
        run.last_millis,
        run.first_snapshot,
        run.last_snapshot,
        run.is_foreign,
    )


def _text(text: str | None) -> str | None:
    return None if text is None else unicode_of(text)

"""The index of fields: a database of sqlite, in memory or in a file, from which questions are answered.

It has nothing that is not known elsewhere. A file of another version, of other lineage, or that is damaged is replaced.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from threading import Lock
from typing import Any  # Any: the values of a row

from lakelog.common.errors import CorruptDataError, InvalidRequestError, NotFoundError, UnavailableError
from lakelog.common.quoting import listed, shown
from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.field_runs import KnownFields
from lakelog.lineage.columns.questions.index_filling import (
    FINGERPRINT,
    RUNS_FINGERPRINT,
    VERSION_KEY,
    Fingerprints,
    fill,
    fingerprints_of,
    put_runs,
)
from lakelog.lineage.columns.questions.index_rows import (
    IndexedDataset,
    IndexedEdge,
    IndexedField,
    IndexedRun,
    IndexedWrite,
    WrittenField,
)
from lakelog.lineage.columns.questions.index_schema import VERSION

_EDGES = "SELECT e.source, e.target, f.dataset, e.write, e.kind, e.is_masked, e.path FROM edges e JOIN fields f "
_DATASET_EDGES = "SELECT source, NULL, sink, write, kind, is_masked, path FROM dataset_edges "
_IN = "IN (SELECT value FROM json_each(?))"
_NAMES_SHOWN = 5
DOCUMENTS_KEPT = 64


class FieldIndex:
    """Answers simple questions; `Walk` and others combine them. Threads may share it."""

    def __init__(self, connection: sqlite3.Connection, fingerprints: Fingerprints) -> None:
        """Use an index that is filled; `build_index` makes one."""
        self.fingerprints = fingerprints
        self._connection = connection
        self._lock = Lock()
        self._documents: dict[str, FieldDocument] = {}

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._connection.close()

    def __del__(self) -> None:
        """Close the database once no question needs it any more."""
        self._connection.close()

    def follow(self, known: KnownFields) -> bool:
        """Take in what is known now, if only runs have gone on; False if the index has to be built again."""
        found = fingerprints_of(known)
        if found.lasting != self.fingerprints.lasting:
            return False
        if found.whole != self.fingerprints.whole:
            with self._lock:
                put_runs(self._connection, known, found)
            self.fingerprints = found
        return True

    def datasets(self, ids: Iterable[int] | None = None) -> list[IndexedDataset]:
        """Datasets by their ids, or all of them, by id."""
        if ids is None:
            return [_dataset(row) for row in self._rows("SELECT * FROM datasets ORDER BY id")]
        rows = self._rows(f"SELECT * FROM datasets WHERE id {_IN} ORDER BY id", _json(ids))
        return [_dataset(row) for row in rows]

    def find_dataset(self, dataset: Dataset) -> IndexedDataset | None:
        """A dataset by its present name."""
        rows = self._rows("SELECT * FROM datasets WHERE namespace = ? AND name = ?", *map(_text, dataset))
        return _dataset(rows[0]) if rows else None

    def find_table(self, uuid: str, line: str, dataset: Dataset) -> IndexedDataset | None:
        """A table, or a branch of it, by its uuid; of copies that share it the one of this name, else the first."""
        found = self.tables(uuid, line)
        return next((one for one in found if one.dataset == dataset), found[0] if found else None)

    def tables(self, uuid: str, line: str) -> list[IndexedDataset]:
        """The tables, or branches, with a uuid: one, unless a folder was copied."""
        rows = self._rows("SELECT * FROM datasets WHERE uuid = ? AND line = ? ORDER BY id", _text(uuid), _text(line))
        return [_dataset(row) for row in rows]

    def dataset(self, dataset: Dataset) -> IndexedDataset:
        """A dataset by its present name. Raises NotFoundError, naming others."""
        found = self.find_dataset(dataset)
        if found is None:
            others = self._rows(f"SELECT namespace, name FROM datasets ORDER BY id LIMIT {_NAMES_SHOWN + 1}")
            known = listed((".".join(one) for one in others), names_max=_NAMES_SHOWN)
            raise NotFoundError(
                f"no lineage of fields names {shown('.'.join(dataset))}; it names {known or 'no table yet'}"
            )
        return found

    def find_field(self, owner: IndexedDataset, name: str) -> IndexedField | None:
        """A field by its present name."""
        rows = self._rows("SELECT * FROM fields WHERE dataset = ? AND name = ?", owner.id, _text(name))
        return _field(rows[0]) if rows else None

    def field(self, owner: IndexedDataset, name: str) -> IndexedField:
        """A field by its present name. Raises NotFoundError, naming others."""
        found = self.find_field(owner, name)
        if found is None:
            known = listed((one.name for one in self.fields_of([owner.id])), names_max=_NAMES_SHOWN)
            raise NotFoundError(
                f"{'.'.join(owner.dataset)} has no field {shown(name)}; it has {known or 'no known fields'}"
            )
        return found

    def fields(self, ids: Iterable[int]) -> dict[int, IndexedField]:
        """Fields by their ids."""
        rows = self._rows(f"SELECT * FROM fields WHERE id {_IN}", _json(ids))
        return {row[0]: _field(row) for row in rows}

    def fields_of(self, datasets: Iterable[int]) -> list[IndexedField]:
        """The fields of datasets: those of the present schemas in their order, then others."""
        order = "ORDER BY dataset, place IS NULL, place, id"
        rows = self._rows(f"SELECT * FROM fields WHERE dataset {_IN} {order}", _json(datasets))
        return [_field(row) for row in rows]

    def edges_into(self, fields: Iterable[int]) -> list[IndexedEdge]:
        """The edges to fields."""
        return self._edges(f"{_EDGES} ON f.id = e.target WHERE e.target {_IN}", fields)

    def edges_from(self, fields: Iterable[int]) -> list[IndexedEdge]:
        """The edges from fields to fields."""
        return self._edges(f"{_EDGES} ON f.id = e.target WHERE e.source {_IN}", fields)

    def dataset_edges_into(self, datasets: Iterable[int]) -> list[IndexedEdge]:
        """The edges that count for all fields of datasets."""
        return self._edges(f"{_DATASET_EDGES} WHERE sink {_IN}", datasets)

    def dataset_edges_from(self, fields: Iterable[int]) -> list[IndexedEdge]:
        """The edges from fields that count for all fields of a dataset."""
        return self._edges(f"{_DATASET_EDGES} WHERE source {_IN}", fields)

    def writes(self, ids: Iterable[int] | None = None, *, sinks: Iterable[int] = ()) -> dict[int, IndexedWrite]:
        """Writes by their ids, or those to some datasets."""
        place, chosen = ("sink", sinks) if ids is None else ("id", ids)
        rows = self._rows(f"SELECT * FROM writes WHERE {place} {_IN} ORDER BY id", _json(chosen))
        return {row[0]: IndexedWrite(row[0], row[1], row[2], bool(row[3])) for row in rows}

    def reads(self) -> list[tuple[int, int]]:
        """Each write with each dataset that it reads."""
        return [(row[0], row[1]) for row in self._rows("SELECT write, dataset FROM reads")]

    def writes_reading(self, dataset: int) -> list[int]:
        """The writes that read a dataset."""
        return [row[0] for row in self._rows("SELECT write FROM reads WHERE dataset = ?", dataset)]

    def runs(self, writes: Iterable[int]) -> list[IndexedRun]:
        """The runs of writes, the newest first."""
        rows = self._rows(f"SELECT * FROM runs WHERE write {_IN} ORDER BY last_millis DESC, id", _json(writes))
        return [IndexedRun._make((*row[:-1], bool(row[-1]))) for row in rows]

    def runs_of_sink(self, sink: int) -> list[IndexedRun]:
        """The runs that wrote a dataset, the newest first."""
        return self.runs(self.writes(sinks=[sink]))

    def writes_between(self, start_millis: int, end_millis: int) -> frozenset[int]:
        """The writes with a run that overlaps [start, end)."""
        text = "SELECT DISTINCT write FROM runs WHERE first_millis < ? AND last_millis >= ?"
        return frozenset(row[0] for row in self._rows(text, end_millis, start_millis))

    def written(self, *, fields: Iterable[int] | None = None, writes: Iterable[int] = ()) -> list[WrittenField]:
        """How fields are made, or what writes make."""
        place, chosen = ("write", writes) if fields is None else ("field", fields)
        rows = self._rows(f"SELECT * FROM written WHERE {place} {_IN} ORDER BY write, field", _json(chosen))
        return [WrittenField._make((*row[:3], bool(row[3]))) for row in rows]

    def has_document(self, checksum: str) -> bool:
        """Whether a document is known."""
        return bool(self._rows("SELECT 1 FROM documents WHERE checksum = ? AND content IS NOT NULL", checksum))

    def document(self, checksum: str) -> FieldDocument | None:
        """A document; None if it is lost. Some are kept, since questions about one table name the same ones."""
        found = self._documents.get(checksum)
        if found is None:
            found = self._parsed(checksum)
            if found is not None:
                if len(self._documents) >= DOCUMENTS_KEPT:
                    self._documents.clear()
                self._documents[checksum] = found
        return found

    def _parsed(self, checksum: str) -> FieldDocument | None:
        rows = self._rows("SELECT content FROM documents WHERE checksum = ?", checksum)
        content = rows[0][0] if rows else None
        try:
            return None if content is None else FieldDocument.from_json(content, path=f"the document {checksum}")
        except CorruptDataError:  # it has names that no stored document can have
            return None

    def rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query of its own, such as a search."""
        return self._rows(text, *values)

    def _edges(self, text: str, chosen: Iterable[int]) -> list[IndexedEdge]:
        return [IndexedEdge._make((*row[:5], bool(row[5]), row[6])) for row in self._rows(text, _json(chosen))]

    def _rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(text, values).fetchall()


def build_index(known: KnownFields, path: str | Path | None = None) -> FieldIndex:
    """The index of what is known, in memory or in a file, which is used again while it fits.

    Raises InvalidRequestError for a path that is no file, UnavailableError where the file cannot be written.
    """
    fingerprints = fingerprints_of(known)
    if path is None:
        connection = _connected(":memory:")
        fill(connection, known, fingerprints)
        return FieldIndex(connection, fingerprints)
    file = Path(path)
    if file.exists() and not file.is_file():
        raise InvalidRequestError(f"the index of fields cannot be in {file}: it is not a regular file; name another")
    connection = _fitting(file, known, fingerprints) or _rebuilt(file, known, fingerprints)
    return FieldIndex(connection, fingerprints)


def _fitting(file: Path, known: KnownFields, fingerprints: Fingerprints) -> sqlite3.Connection | None:
    """The index in a file, with the runs as they are now; None if it has to be built."""
    if not file.exists():
        return None
    connection = None
    try:
        connection = _connected(file)
        found = dict(connection.execute("SELECT key, value FROM meta").fetchall())
        is_same = found.get(VERSION_KEY) == str(VERSION) and found.get(FINGERPRINT) == fingerprints.lasting
        if is_same and connection.execute("PRAGMA quick_check").fetchone() == ("ok",):
            if found.get(RUNS_FINGERPRINT) != fingerprints.whole:
                put_runs(connection, known, fingerprints)
            return connection
    except (sqlite3.Error, KeyError):
        pass  # a file of another kind, or a damaged one
    if connection is not None:
        connection.close()
    return None


def _rebuilt(file: Path, known: KnownFields, fingerprints: Fingerprints) -> sqlite3.Connection:
    """A new index in place of the file: another process sees the one or the other."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        os.close(handle)
        try:
            with closing(_connected(name)) as connection:
                connection.execute("PRAGMA journal_mode = OFF")
                fill(connection, known, fingerprints)
            os.replace(name, file)  # noqa: PTH105  # the same call for a name
        except BaseException:
            with suppress(OSError):
                os.unlink(name)  # noqa: PTH108  # likewise
            raise
        return _connected(file)
    except (OSError, sqlite3.Error) as error:
        raise UnavailableError(
            f"the index of fields cannot be written to {file}: {error}; name another file, or none to keep it in memory"
        ) from error


def _connected(place: str | Path) -> sqlite3.Connection:
    return sqlite3.connect(place, check_same_thread=False)


def _dataset(row: Sequence[Any]) -> IndexedDataset:
    return IndexedDataset(row[0], row[1], row[2], row[3], row[4], bool(row[5]), row[6])


def _field(row: Sequence[Any]) -> IndexedField:
    return IndexedField(*row[:7])


def _json(ids: Iterable[int]) -> str:
    return json.dumps(list(ids))


def _text(name: str) -> str:
    """A name as sqlite can compare it: halves of characters, which it refuses, are in no name that it holds."""
    return name.encode("utf-8", "replace").decode()

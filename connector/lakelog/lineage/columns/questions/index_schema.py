"""The tables of the index of fields, a database of sqlite that can be thrown away at any time.

    datasets       tables and other sources by their present names; `columns` is their number in the present schema
    fields         their fields; `place` is the position in the present schema
                   and `folded` the name for searches in any case
    writes         one document at one dataset: one way in which the dataset was made
    write_keys     to which write a run belongs
    runs           the runs of jobs that wrote so
    written        the fields of a write, each with the SQL of its expression
    edges          from field to field, one row for each kind and each path in a struct
    dataset_edges  from a field to all fields of a dataset
    reads          the datasets that a write reads
    documents      the text of each document, or why it is lost

`kind` is the place of an EdgeKind in `KINDS`.
"""

from __future__ import annotations

from typing import Final

from lakelog.lineage.columns.field_edges import EdgeKind

VERSION: Final = 2
KINDS: Final = tuple(EdgeKind)
KIND_NUMBERS: Final = {kind: number for number, kind in enumerate(KINDS)}
DIRECT_NUMBERS: Final = frozenset(number for number, kind in enumerate(KINDS) if kind.is_direct)

TABLES: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE datasets (id INTEGER PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL, uuid TEXT, line TEXT,
    is_present INTEGER NOT NULL, columns INTEGER NOT NULL, folded TEXT NOT NULL, UNIQUE (namespace, name));
CREATE TABLE fields (id INTEGER PRIMARY KEY, dataset INTEGER NOT NULL, name TEXT NOT NULL, type TEXT, number INTEGER,
    state TEXT NOT NULL, place INTEGER, folded TEXT NOT NULL, UNIQUE (dataset, name));
CREATE TABLE writes (id INTEGER PRIMARY KEY, sink INTEGER NOT NULL, checksum TEXT NOT NULL,
    is_approximate INTEGER NOT NULL);
CREATE TABLE write_keys (key TEXT PRIMARY KEY, write INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (id INTEGER PRIMARY KEY, write INTEGER NOT NULL, job TEXT, run TEXT NOT NULL, query TEXT,
    operation TEXT, first_batch INTEGER, last_batch INTEGER, first_millis INTEGER NOT NULL,
    last_millis INTEGER NOT NULL, first_snapshot INTEGER, last_snapshot INTEGER, is_foreign INTEGER NOT NULL);
CREATE TABLE written (write INTEGER NOT NULL, field INTEGER NOT NULL, sql TEXT NOT NULL, is_opaque INTEGER NOT NULL,
    PRIMARY KEY (write, field)) WITHOUT ROWID;
CREATE TABLE reads (write INTEGER NOT NULL, dataset INTEGER NOT NULL, PRIMARY KEY (write, dataset)) WITHOUT ROWID;
CREATE TABLE edges (source INTEGER NOT NULL, target INTEGER NOT NULL, write INTEGER NOT NULL, kind INTEGER NOT NULL,
    is_masked INTEGER NOT NULL, path TEXT NOT NULL);
CREATE TABLE dataset_edges (source INTEGER NOT NULL, sink INTEGER NOT NULL, write INTEGER NOT NULL,
    kind INTEGER NOT NULL, is_masked INTEGER NOT NULL, path TEXT NOT NULL);
CREATE TABLE documents (checksum TEXT PRIMARY KEY, content TEXT, lost TEXT) WITHOUT ROWID;
"""
INDEXES: Final = """
CREATE INDEX fields_of_dataset ON fields (dataset);
CREATE INDEX writes_of_sink ON writes (sink);
CREATE INDEX reads_of_dataset ON reads (dataset);
CREATE INDEX runs_of_write ON runs (write);
CREATE INDEX written_fields ON written (field);
CREATE INDEX edges_into ON edges (target);
CREATE INDEX edges_from ON edges (source);
CREATE INDEX dataset_edges_into ON dataset_edges (sink);
CREATE INDEX dataset_edges_from ON dataset_edges (source);
"""

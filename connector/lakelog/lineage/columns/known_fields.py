"""All that is known of the lineage of fields of warehouses: runs, their documents, and the columns of tables.

Runs come from the system tables and from snapshots that were not fed yet, documents from the system tables and from
the folders of tables, columns from the newest schemas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.field_runs import FieldRun


@dataclass(frozen=True, slots=True)
class PresentColumn:
    """A column in the newest schema of a table: its number, which a rename keeps, and the text of its type."""

    name: str
    id: int
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentTable:
    """A table of a warehouse, or a branch of it, as it is now."""

    dataset: Dataset
    uuid: str
    columns: tuple[PresentColumn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFields:
    """What questions about fields are answered from.

    `documents` has the document of each checksum that a run names, except those that are lost. `tables` are all tables
    of the warehouses with their branches, also those without lineage.
    """

    runs: Sequence[FieldRun]
    documents: Mapping[str, FieldDocument]
    tables: Sequence[PresentTable] = ()
    lost: Mapping[str, str] = field(default_factory=dict)  # why the document of a checksum cannot be read

"""The plan of a query: that of DuckDB, with the files that each of its scans reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow.dataset import dataset
from sqlglot import exp
from sqlglot import parse_one as read_expression
from sqlglot.errors import ParseError

from lakelog.common.errors import LakelogError
from lakelog.common.quoting import quoted
from lakelog.filestore.predicate import predicate_of
from lakelog.filestore.read import PlannedRead
from lakelog.sql.queries.reading import QueryTables, name_of_table

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.filestore.read import DataSplit
    from lakelog.filestore.refs import SnapshotChoice

_MARK = re.compile(r"\b__lakelog_")
_MARKED = re.compile(r'"?scan(\d+):([^",)\s]+)"?')
# What DuckDB calls its scans of registered rows, and of files that it reads itself.
_SCANS = ("PYTHON_ARROW_SCAN", "ARROW_SCAN")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scanned:
    """The rows that a relation of the plan stands for."""

    name: str
    files: FileStoreTable
    snapshot: Snapshot
    choice: SnapshotChoice

    def planned(self, where: str | None = None) -> PlannedRead:
        """The read of the rows, without files that cannot meet the condition. Raises InvalidRequestError."""
        fields = self.files.schema.fields
        return PlannedRead.of(self.files, self.snapshot, fields, where=predicate_of(where, fields=fields))


@dataclass(kw_only=True)
class PlannedTables(QueryTables):
    """Tables as relations without rows, whose columns have the number of the relation in their names."""

    scanned: list[_Scanned] = field(default_factory=list)

    def run(self, query: exp.Expr) -> pa.Table:
        """The rows of a query within the query, such as the one that names a state."""
        return QueryTables(names=self.names).run(query)

    def _register_files(self, name: str, files: FileStoreTable, snapshot: Snapshot, choice: SnapshotChoice) -> None:
        columns = files.schema.arrow_schema
        number = len(self.scanned)
        rows = pa.schema([one.with_name(f"scan{number}:{one.name}") for one in columns]).empty_table()
        self.connection.register(f"scan{number}", dataset(rows))  # into which DuckDB pushes filters
        chosen = ", ".join(
            f"{quoted(given)} AS {quoted(one)}" for given, one in zip(rows.column_names, columns.names, strict=True)
        )
        self._view(name, chosen, f"scan{number}")
        self.scanned.append(_Scanned(name=name_of_table(name), files=files, snapshot=snapshot, choice=choice))


def plan_lines(
    tables: PlannedTables, query: exp.Expr, *, depth: int = 0, internal: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The steps of a query, what feeds a step below it and further in. Raises InvalidRequestError.

    `internal` are columns that a statement adds to its query, by the names to show; those without one are not shown.
    """
    yield from _lines(tables.scanned, tables.plan_of(query), depth, internal or {})


def _lines(
    scanned: list[_Scanned], nodes: list[dict[str, Any]], depth: int, internal: Mapping[str, str]
) -> Iterator[str]:
    for node in nodes:
        told = {key: _without(value, internal) for key, value in (node.get("extra_info") or {}).items()}
        told.pop("Estimated Cardinality", None)
        name = node["name"].strip()
        line = _scan(scanned, told) if name in _SCANS else None
        if line is None:
            title = "Scan of rows" if name in _SCANS else name.replace("_", " ").capitalize()
            details = " ".join(_details(told))
            line = f"{title}: {details}" if details else title
        yield "  " * depth + _MARK.sub("", _MARKED.sub(r"\2", line))
        yield from _lines(scanned, node["children"], depth + 1, internal)


def _without(value: Any, internal: Mapping[str, str]) -> Any:
    """What a step says, without columns that a statement adds."""
    if not isinstance(value, list):
        return value
    names = ((one, _MARKED.sub(r"\2", str(one))) for one in value)
    return [internal.get(name, one) for one, name in names if internal.get(name) != ""]


def _details(told: Mapping[str, Any]) -> Iterator[str]:
    for name, value in told.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        if text and name != "Function":
            yield f"{name.lower()} {text};"


def _scan(scanned: list[_Scanned], told: Mapping[str, Any]) -> str | None:
    """A scan of a table; None for one of other rows."""
    columns, filters = (
        [value] if isinstance(value := told.get(key) or [], str) else value for key in ("Projections", "Filters")
    )
    marks = _MARKED.findall(" ".join((*columns, *filters)))
    number = int(marks[0][0]) if marks else 0 if len(scanned) == 1 and not columns else None
    if number is None:
        return None
    read = scanned[number]
    where = [text for one in filters if (text := _condition(read, one)) is not None]
    everything = read.planned()
    part = read.planned(" AND ".join(where)) if where else everything
    names = ", ".join(name for _, name in _MARKED.findall(", ".join(columns))) or "no columns"
    state = f", snapshot {read.choice['snapshot_id']}" if "snapshot_id" in read.choice else ""
    line = f"Scan {read.name}{state}: {names};"
    if filters:
        line += f" where {' AND '.join(filters)};"
    return f"{line} {files_of(part.splits, everything.splits)}"


def files_of(chosen: Sequence[DataSplit], every: Sequence[DataSplit]) -> str:
    """How many files, and bytes, of how many."""
    counts = [sum(len(split.files) for split in splits) for splits in (chosen, every)]
    sizes = [sum(split.size_bytes for split in splits) for splits in (chosen, every)]
    return f"{counts[0]:,} of {counts[1]:,} files, {sizes[0]:,} of {sizes[1]:,} bytes"


def _condition(read: _Scanned, given: str) -> str | None:
    """A filter of DuckDB as a condition on the table; None for one that does not skip files."""
    try:
        text = read_expression(_MARKED.sub(r'"\2"', given), dialect="duckdb").sql(dialect="spark")
        read.planned(text)
    except (ParseError, LakelogError):
        return None
    return f"({text})"

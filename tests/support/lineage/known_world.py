"""What is known of fields, made by hand: tables, and writes from fields to fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lakelog.lineage.columns.field_documents import FieldDocument, SourceTable, TableColumn
from lakelog.lineage.columns.field_edges import Dataset, EdgeKind, Edges, FieldEdge, SourceField
from lakelog.lineage.columns.field_operations import FieldLineage, FieldOperation, OutputField
from lakelog.lineage.columns.field_runs import FieldRun, KnownFields, PresentColumn, PresentTable

START = 1_700_000_000_000  # the commit of snapshot 0, in milliseconds; each snapshot is a minute later
MINUTE = 60_000

Source = str | tuple[str, str] | tuple[str, str, str]
"""`db.t.column`, and the kind, IDENTITY without one; then "masked"."""


def dataset_of(name: str) -> Dataset:
    """The dataset with this name, `db.t`."""
    namespace, _, table = name.partition(".")
    return Dataset(namespace, table)


def uuid_of(name: str) -> str:
    """The uuid of a table that is made without one."""
    return f"uuid of {name}"


@dataclass
class KnownWorld:
    """Grows by tables and writes. The columns of a table have the numbers 0, 1, ... unless `number` says otherwise."""

    tables: dict[str, PresentTable] = field(default_factory=dict)
    runs: list[FieldRun] = field(default_factory=list)
    documents: dict[str, FieldDocument] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)

    def table(self, name: str, *columns: str | tuple[str, int], uuid: str | None = None) -> KnownWorld:
        """Add a table, or put another schema in its place."""
        pairs = [(one, at) if isinstance(one, str) else one for at, one in enumerate(columns)]
        present = tuple(PresentColumn(column, number, "STRING") for column, number in pairs)
        self.tables[name] = PresentTable(dataset=dataset_of(name), uuid=uuid or uuid_of(name), columns=present)
        return self

    def drop(self, name: str) -> KnownWorld:
        """Remove a table; its lineage stays."""
        del self.tables[name]
        return self

    def write(
        self,
        sink: str,
        fields: Mapping[str, Sequence[Source]],
        *,
        dataset: Sequence[Source] = (),
        job: str | None = "job",
        run: str = "run",
        snapshots: tuple[int, int] = (1, 1),
        times: tuple[int, int] | None = None,
        batches: tuple[int, int] | None = None,
        operation: str | None = None,
        opaque: Iterable[str] = (),
        sql: Mapping[str, str] | None = None,
        is_approximate: bool = False,
        declared: Sequence[FieldOperation] | None = None,
        sink_uuid: str | None = None,
        is_foreign: bool = False,
    ) -> str:
        """Add a run that wrote a table, with the columns as they are now; returns the checksum of its document."""
        document = self.document(
            sink, fields, dataset=dataset, opaque=opaque, sql=sql, is_approximate=is_approximate, declared=declared
        )
        checksum = document.checksum
        self.documents[checksum] = document
        first, last = times or (START + snapshots[0] * MINUTE, START + snapshots[1] * MINUTE)
        self.runs.append(
            FieldRun(
                sink=dataset_of(sink),
                sink_uuid=("" if is_foreign else sink_uuid or self._uuid(sink)),
                job=job,
                run_id=run,
                query_id=f"query of {job}",
                operation=operation,
                checksum=checksum,
                first_batch=None if batches is None else batches[0],
                last_batch=None if batches is None else batches[1],
                first_millis=first,
                last_millis=last,
                first_snapshot=None if is_foreign else snapshots[0],
                last_snapshot=None if is_foreign else snapshots[1],
                is_foreign=is_foreign,
            )
        )
        return checksum

    def document(
        self,
        sink: str,
        fields: Mapping[str, Sequence[Source]],
        *,
        dataset: Sequence[Source] = (),
        opaque: Iterable[str] = (),
        sql: Mapping[str, str] | None = None,
        is_approximate: bool = False,
        declared: Sequence[FieldOperation] | None = None,
    ) -> FieldDocument:
        """The document of a write. Tables that the world has are named with their uuids and columns."""
        chosen = frozenset(opaque)
        lineage = FieldLineage(
            fields=tuple(
                OutputField(
                    name=name,
                    edges=self._edges(sources),
                    description=(sql or {}).get(name, ""),
                    is_opaque=name in chosen,
                )
                for name, sources in fields.items()
            ),
            dataset=self._edges(dataset),
        )
        own = self.tables.get(sink)
        ids = {} if own is None else {one.name: one.id for one in own.columns}
        return FieldDocument(
            lineage=lineage,
            ids={name: ids[name] for name in fields if name in ids},
            sources=tuple(self._source(one) for one in lineage.sources() if ".".join(one) in self.tables),
            is_approximate=is_approximate,
            declared=None if declared is None else tuple(declared),
        )

    def known(self) -> KnownFields:
        """All of it."""
        return KnownFields(
            runs=list(self.runs), documents=dict(self.documents), tables=list(self.tables.values()), lost=self.lost
        )

    def _uuid(self, name: str) -> str:
        return self.tables[name].uuid if name in self.tables else uuid_of(name)

    def _source(self, dataset: Dataset) -> SourceTable:
        table = self.tables[".".join(dataset)]
        columns = tuple(TableColumn(one.name, one.id, one.type) for one in table.columns)
        return SourceTable(dataset=dataset, uuid=table.uuid, columns=columns)

    def _edges(self, sources: Iterable[Source]) -> Edges:
        return frozenset(self._edge(*((one,) if isinstance(one, str) else one)) for one in sources)

    def _edge(self, name: str, kind: str = "IDENTITY", masked: str = "") -> FieldEdge:
        owner = max((one for one in self.tables if name.startswith(f"{one}.")), key=len, default=None)
        if owner is None:  # a topic or a file
            table, _, column = name.rpartition(".")
            source = SourceField(dataset_of(table), (column,))
        else:
            path = name.removeprefix(f"{owner}.")
            columns = {one.name for one in self.tables[owner].columns}
            parts = (path,) if path in columns else tuple(path.split("."))
            source = SourceField(dataset_of(owner), parts)
        return FieldEdge(source, EdgeKind[kind], bool(masked))

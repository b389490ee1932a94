"""The cases of `tests/lineage/fields/truth`: their tables in a session, and the lineage that is found for them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any  # Any: parsed JSON

from pyspark.sql import SparkSession

from lakelog.lineage.columns.field_edges import Dataset, Edges, FieldEdge, all_of, along
from lakelog.lineage.columns.plans.plan_fields import PlanFields
from lakelog.spark.capture.leaf_datasets import SPARK_CATALOG
from lakelog.spark.session import catalog_of
from tests.support.lineage.statement_fields import fields_of_statement

TRUTH = Path(__file__).parents[2] / "lineage" / "fields" / "truth"
LAKE = "truth"
_MADE = re.compile(r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMP(?:ORARY)?\s+)?(VIEW|TABLE)\s+([\w.]+)", re.IGNORECASE)

FoundEdge = tuple[str, str, str, bool]  # from, to, subtype, masking; `to` is "*" for the dataset


@dataclass(frozen=True, slots=True)
class FieldCase:
    """One case: its JSON, which the README of the folder describes."""

    file: str
    content: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name, which is unique in its file."""
        return str(self.content["name"])

    @property
    def has_kinds(self) -> bool:
        """Whether the edges have kinds."""
        return self.file != "sqllineage"

    @property
    def has_dataset(self) -> bool:
        """Whether the edges of the dataset are known."""
        return "dataset" in self.content

    def expected(self) -> set[FoundEdge]:
        """The edges that are expected."""
        edges = self.content["edges"]
        if not self.has_kinds:
            return {(start, end, "DIRECT", False) for start, end in edges}
        to_fields = {(one["from"], one["to"], one["subtype"], one["masking"]) for one in edges}
        return to_fields | {
            (one["from"], "*", one["subtype"], one["masking"]) for one in self.content.get("dataset", ())
        }


def cases_of(file: str) -> list[FieldCase]:
    """The cases of a file."""
    content = json.loads((TRUTH / f"{file}.json").read_text("utf-8"))
    return [FieldCase(file, case) for case in content["cases"]]


@dataclass(slots=True)
class CaseSession:
    """A session with the tables of one case after the other; a table that the next case has, too, stays."""

    session: SparkSession
    folder: Path
    _databases: set[str] = field(default_factory=set)
    _made: dict[str, str] = field(default_factory=dict)  # by name, the statement
    _written: list[str] = field(default_factory=list)  # what statements have made

    def paths(self, case: FieldCase) -> dict[str, list[str]]:
        """For each column of the target that `paths` of a case names: the fields of structs that it comes from."""
        fields = {one.name: one.edges for one in self._analyzed(case)[0].lineage.fields}
        return {name: sorted({edge.source.name for edge in fields[name]}) for name in case.content["paths"]}

    def found(self, case: FieldCase) -> set[FoundEdge]:
        """The edges that are found for a case."""
        found, written = self._analyzed(case)
        assert not found.opaque_operators, found.opaque_operators
        return _shown(case, found, written)

    def _analyzed(self, case: FieldCase) -> tuple[PlanFields, dict[Dataset, PlanFields]]:
        """The lineage of the last statement of a case, and that of the tables that those before it write."""
        self._prepare(case)
        written: dict[Dataset, PlanFields] = {}
        *before, last = case.content["statements"]
        for statement in before:
            found = fields_of_statement(self.session, statement, catalog_of)
            target = found.lineage.target
            if target is not None:
                written[target] = found
            made = _MADE.match(statement)
            if made:
                self.session.sql(statement)
                self._written.append(f"{made[1]} IF EXISTS {made[2]}")
        return fields_of_statement(self.session, last, catalog_of), written

    def _prepare(self, case: FieldCase) -> None:
        """The tables of a case, in a warehouse of ours if rows of them are changed."""
        for made in self._written:
            self.session.sql(f"DROP {made}")
        self._written.clear()
        keys = case.content.get("keys") or {}
        self.session.sql(f"USE {LAKE}.default" if keys else "USE spark_catalog.default")
        wanted = {self._full_name(name, bool(keys)): self._definition(case, name) for name in case.content["tables"]}
        created = [made[2] for made in map(_MADE.match, case.content["statements"]) if made]
        others = {self._full_name(name, bool(keys)) for name in (*created, *case.content.get("creates", ()))}
        for name in [
            name for name in self._made if name in others or wanted.get(name, self._made[name]) != self._made[name]
        ]:
            self.session.sql(f"DROP TABLE {name}")
            del self._made[name]
        for name in (name for name in wanted if name not in self._made):
            self._make_database(name.rpartition(".")[0])
            self.session.sql(wanted[name])
            self._made[name] = wanted[name]
        for name in others:
            self._make_database(name.rpartition(".")[0])

    def _make_database(self, name: str) -> None:
        """A database with a folder of its own: Spark's folder of tables is that of all sessions of this machine."""
        if name not in self._databases:
            catalog, _, database = name.partition(".")
            place = f" LOCATION '{self.folder / database}'" if catalog != LAKE and database != "default" else ""
            self.session.sql(f"CREATE DATABASE IF NOT EXISTS {name}{place}")
            self._databases.add(name)

    def _full_name(self, name: str, is_ours: bool) -> str:
        return f"{LAKE if is_ours else 'spark_catalog'}.{name if '.' in name else f'default.{name}'}"

    def _definition(self, case: FieldCase, name: str) -> str:
        keys = case.content.get("keys") or {}
        columns = ", ".join(f"`{column}` {kind}" for column, kind in case.content["tables"][name].items())
        text = f"CREATE TABLE {self._full_name(name, bool(keys))} ({columns})"
        partitions = case.content.get("partitioned_by", {}).get(name)
        if not keys:
            text += " USING parquet"
        if partitions:
            text += f" PARTITIONED BY ({', '.join(partitions)})"
        return text + (f" TBLPROPERTIES ('primary-key' = '{','.join(keys[name])}')" if name in keys else "")

    def close(self) -> None:
        """Remove what was made: sessions share Spark's catalog."""
        for made in self._written:
            self.session.sql(f"DROP {made}")
        for name in self._made:
            self.session.sql(f"DROP TABLE {name}")
        for name in self._databases:
            if not name.startswith(LAKE) and not name.endswith(".default"):
                self.session.sql(f"DROP DATABASE {name} CASCADE")


def _shown(case: FieldCase, found: PlanFields, written: Mapping[Dataset, PlanFields]) -> set[FoundEdge]:
    """The edges of a lineage in the form of a case, from the first tables on."""
    target = "out" if found.lineage.target is None else _short(found.lineage.target)
    shown = {
        (
            _start(edge),
            f"{target}.{one.name}",
            edge.kind.subtype if case.has_kinds else "DIRECT",
            edge.is_masked and case.has_kinds,
        )
        for one in found.lineage.fields
        for edge in _from_first(one.edges, written)
        if case.has_kinds or edge.kind.is_direct
    }
    if case.has_dataset:
        shown |= {(_start(edge), "*", edge.kind.subtype, edge.is_masked) for edge in found.lineage.dataset}
    return shown


def _from_first(edges: Edges, written: Mapping[Dataset, PlanFields]) -> Edges:
    """The edges with those to tables that an earlier statement has written replaced by what these come from."""
    return all_of(_before(edge, written) for edge in edges)


def _before(edge: FieldEdge, written: Mapping[Dataset, PlanFields]) -> Edges:
    earlier = written.get(edge.source.dataset)
    if earlier is None:
        return frozenset([edge])
    inputs = next(one.edges for one in earlier.lineage.fields if one.name == edge.source.column)
    return along(_from_first(inputs, written), edge.kind, is_masking=edge.is_masked)


def _start(edge: FieldEdge) -> str:
    return f"{_short(edge.source.dataset)}.{edge.source.column}"


def _short(table: Dataset) -> str:
    """The name of a table in a case: the namespace of a table of ours is its database."""
    name = table.name if table.namespace == SPARK_CATALOG else ".".join(table)
    return name.removeprefix("default.")

"""Finds datasets and fields by a part of their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any  # Any: the values of a row

from lakelog.lineage.fields.questions.field_index import FieldIndex

_OF_FIELD = """(EXISTS (SELECT 1 FROM edges WHERE target = {0}) OR EXISTS (SELECT 1 FROM edges WHERE source = {0})
    OR EXISTS (SELECT 1 FROM dataset_edges WHERE source = {0}))"""
_OF_DATASET = (
    """(EXISTS (SELECT 1 FROM writes WHERE sink = d.id) OR EXISTS (SELECT 1 FROM reads WHERE dataset = d.id))"""
)
_DATASETS = f"""
    SELECT d.namespace, d.name, NULL, NULL, d.is_present, {_OF_DATASET} AS has
    FROM datasets d WHERE instr(d.folded, ?) ORDER BY {{}} d.id LIMIT ? OFFSET ?"""
_FIELDS = f"""
    SELECT d.namespace, d.name, f.name, f.type, d.is_present, {_OF_FIELD.format("f.id")}
    FROM (SELECT * FROM fields WHERE instr(folded, ?) ORDER BY dataset, place IS NULL, place, id LIMIT ? OFFSET ?) f
    JOIN datasets d ON d.id = f.dataset ORDER BY f.dataset, f.place IS NULL, f.place, f.id"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A dataset, or with `field` a field of it, whose name contains what was searched."""

    namespace: str
    dataset: str
    field: str | None
    type: str | None
    is_present: bool
    has_lineage: bool


def search(index: FieldIndex, text: str, *, limit: int, offset: int = 0) -> tuple[int, list[Match]]:
    """How many datasets and fields contain the text, in any case, and some of them: datasets first.

    Without a text they are all datasets, those with lineage first.
    """
    wanted = text.casefold()
    datasets = index.rows("SELECT count(*) FROM datasets WHERE instr(folded, ?)", wanted)[0][0]
    rows = index.rows(_DATASETS.format("" if wanted else "has DESC,"), wanted, limit, offset)
    if not wanted:
        return datasets, [_match(row) for row in rows]
    fields = index.rows("SELECT count(*) FROM fields WHERE instr(folded, ?)", wanted)[0][0]
    if len(rows) < limit:
        rows += index.rows(_FIELDS, wanted, limit - len(rows), max(offset - datasets, 0))
    return datasets + fields, [_match(row) for row in rows]


def _match(row: tuple[Any, ...]) -> Match:
    return Match(
        namespace=row[0], dataset=row[1], field=row[2], type=row[3], is_present=bool(row[4]), has_lineage=bool(row[5])
    )

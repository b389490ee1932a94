"""Finds datasets and fields by a part of their names."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.lineage.columns.questions.field_index import FieldIndex

_HAS_LINEAGE = """(EXISTS (SELECT 1 FROM edges WHERE target = f.id) OR EXISTS (SELECT 1 FROM edges WHERE source = f.id)
    OR EXISTS (SELECT 1 FROM dataset_edges WHERE source = f.id))"""
_DATASETS = f"""
    SELECT 0 AS rank, d.id AS place, 0 AS part, d.namespace, d.name, NULL, NULL, d.is_present,
        EXISTS (SELECT 1 FROM writes WHERE sink = d.id)
        OR EXISTS (SELECT 1 FROM fields f WHERE f.dataset = d.id AND {_HAS_LINEAGE})
    FROM datasets d WHERE contains(d.name, ?)"""
_FIELDS = f"""
    SELECT 1, d.id, coalesce(f.place, 1000000 + f.id), d.namespace, d.name, f.name, f.type, d.is_present, {_HAS_LINEAGE}
    FROM fields f JOIN datasets d ON d.id = f.dataset WHERE contains(f.name, ?)"""


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
    order = "ORDER BY rank, place, part" if wanted else "ORDER BY 9 DESC, place"
    parts, values = ([_DATASETS, _FIELDS], [wanted, wanted]) if wanted else ([_DATASETS], [wanted])
    union = " UNION ALL ".join(parts)
    total = index.rows(f"SELECT count(*) FROM ({union})", *values)[0][0]
    rows = index.rows(f"{union} {order} LIMIT ? OFFSET ?", *values, limit, offset)
    return total, [
        Match(
            namespace=row[3],
            dataset=row[4],
            field=row[5],
            type=row[6],
            is_present=bool(row[7]),
            has_lineage=bool(row[8]),
        )
        for row in rows
    ]

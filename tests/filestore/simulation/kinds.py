"""The kinds of tables that the simulation drives: a schema, and how the model takes in one row.

A new kind is one more entry of `KINDS`; with another merge engine it brings a fold of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakelog.common.types import ROW_KIND_COLUMN, ROW_KIND_TEXTS, RowKind
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.schema import TableSchema

Row = tuple[int, int, int | None, str | None]  # id, p, a, b
Key = tuple[int, int]
State = Mapping[Key, Row]
Fold = Callable[[Row | None, Row], Row]

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("p", pa.int32(), nullable=False),
        pa.field("a", pa.int64()),
        pa.field("b", pa.string()),
    ]
)
PARTITIONS = 3
SHARED_KEYS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows in arrival order and their kinds."""

    rows: Sequence[Row]
    kinds: Sequence[RowKind]

    @property
    def table(self) -> pa.Table:
        """The rows as a writer gives them."""
        columns = list(zip(*self.rows, strict=True)) or [()] * len(SCHEMA)
        return pa.table([pa.array(column, one.type) for one, column in zip(SCHEMA, columns, strict=True)], SCHEMA)

    @property
    def kind_array(self) -> pa.Array:
        """The kinds as a writer gives them."""
        return pa.array([int(kind) for kind in self.kinds], pa.int8())


def last(_: Row | None, row: Row) -> Row:
    """The whole row replaces what was there."""
    return row


def partial(before: Row | None, row: Row) -> Row:
    """Columns that are null leave what was there."""
    if before is None:
        return row
    return (row[0], row[1], before[2] if row[2] is None else row[2], before[3] if row[3] is None else row[3])


def summed(before: Row | None, row: Row) -> Row:
    """`a` adds up, `b` is the last one that is not null."""
    if before is None:
        return row
    known = [one for one in (before[2], row[2]) if one is not None]
    return (row[0], row[1], sum(known) if known else None, before[3] if row[3] is None else row[3])


@dataclass(frozen=True, slots=True, kw_only=True)
class TableKind:
    """A kind of table: what it is made of, and the model of its writes."""

    name: str
    fold: Fold = last
    has_key: bool = True
    takes_deletes: bool = False
    is_partitioned: bool = False
    tells_old_values: bool = False  # its changelog says what each row was before; overwrites are not in it
    shows_compacted: bool = False  # reads leave level 0 out; overwrites are not tried
    options: Mapping[str, str] = field(default_factory=dict)

    def schema(self, options: Mapping[str, str]) -> TableSchema:
        """The schema of a new table with further options. Keys hold `p`, so the rows of a key stay in a partition."""
        return build_schema(
            SCHEMA,
            primary_keys=["id", "p"] if self.has_key else [],
            partition_keys=["p"] if self.is_partitioned else [],
            options={**options, **self.options},
        )

    def batch(self, rng: random.Random, tag: str, *, fresh: Callable[[], int]) -> Batch:
        """A few random rows; `tag` says who wrote them, `fresh` gives ids that no other row has."""
        count = rng.choice((1, 2, 3, 5))
        ids = [rng.randrange(SHARED_KEYS) if self.has_key else fresh() for _ in range(count)]
        rows: list[Row] = [
            (
                one,
                one % PARTITIONS if self.has_key else rng.randrange(PARTITIONS),
                rng.choice((None, rng.randrange(100))),
                rng.choice((None, tag)),
            )
            for one in ids
        ]
        kinds = [RowKind.DELETE if self.takes_deletes and rng.random() < 0.25 else RowKind.INSERT for _ in rows]
        return Batch(rows=rows, kinds=kinds)

    def after(self, state: State, rows: Iterable[Row], kinds: Iterable[RowKind]) -> State:
        """The state after rows have been written to it."""
        left = dict(state)
        for row, kind in zip(rows, kinds, strict=True):
            key = row[:2]
            if kind.is_add:
                left[key] = self.fold(left.get(key), row)
            else:
                left.pop(key, None)
        return left

    def after_changes(self, state: State, rows: Iterable[Row], kinds: Iterable[RowKind]) -> State:
        """The state after the changes of a changelog with old values. Raises ValueError when they do not fit it."""
        left = dict(state)
        for row, kind in zip(rows, kinds, strict=True):
            key = row[:2]
            is_fit = key not in left if kind is RowKind.INSERT else kind is RowKind.UPDATE_AFTER or left.get(key) == row
            if not is_fit:
                raise ValueError(f"{kind.name} of {row}, where {left.get(key)} was told before")
            if kind.is_add:
                left[key] = row
            elif kind is RowKind.DELETE:
                del left[key]
        return left


_TWO = {"bucket": "2"}
KINDS = (
    TableKind(name="deduplicate", takes_deletes=True, options=_TWO),
    TableKind(name="partitioned", takes_deletes=True, is_partitioned=True, options=_TWO),
    TableKind(name="partial-update", fold=partial, options={**_TWO, "merge-engine": "partial-update"}),
    TableKind(
        name="aggregation",
        fold=summed,
        options={"bucket": "1", "merge-engine": "aggregation", "fields.a.aggregate-function": "sum"},
    ),
    TableKind(name="input", takes_deletes=True, options={**_TWO, "changelog-producer": "input"}),
    TableKind(
        name="lookup", takes_deletes=True, tells_old_values=True, options={**_TWO, "changelog-producer": "lookup"}
    ),
    TableKind(
        name="full-compaction",
        fold=partial,
        tells_old_values=True,
        options={"bucket": "1", "merge-engine": "partial-update", "changelog-producer": "full-compaction"},
    ),
    TableKind(
        name="deletion-vectors",
        takes_deletes=True,
        shows_compacted=True,
        options={**_TWO, "deletion-vectors.enabled": "true"},
    ),
    TableKind(
        name="dynamic",
        takes_deletes=True,
        is_partitioned=True,
        options={"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
    ),
    TableKind(name="append", has_key=False, options={"bucket": "-1", "compaction.min.file-num": "2"}),
    TableKind(
        name="append-partitioned",
        has_key=False,
        is_partitioned=True,
        options={**_TWO, "bucket-key": "id", "compaction.min.file-num": "2"},
    ),
)


def shown(rows: Iterable[Row]) -> list[str]:
    """Rows in an order of their own, to be compared."""
    return sorted(map(repr, rows))


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """The rows of Arrow batches."""
    return [
        (row["id"], row["p"], row["a"], row["b"]) for batch in batches for row in batch.select(SCHEMA.names).to_pylist()
    ]


def kinds_of(batches: Iterable[pa.RecordBatch]) -> list[RowKind]:
    """The kinds of changes in Arrow batches."""
    texts = [text for batch in batches for text in batch.column(ROW_KIND_COLUMN).to_pylist()]
    return [RowKind(ROW_KIND_TEXTS.index(text)) for text in texts]

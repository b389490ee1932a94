"""Questions of users about the fields of tables in catalogs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.quoting import typed
from lakelog.common.timestamps import Timestamp, millis_of
from lakelog.lineage.columns.dataset_names import dataset_of_table
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.questions.field_answer import UP, FieldAnswer
from lakelog.lineage.columns.questions.field_index import FieldIndex, build_index
from lakelog.lineage.columns.questions.field_questions import Asked, asked, edges_answer, graph_answer, impact_answer
from lakelog.lineage.columns.questions.index_rows import IndexedDataset
from lakelog.lineage.columns.questions.periods import Period, period_at, period_between
from lakelog.lineage.lines.line_graph import FoundTables
from lakelog.lineage.pictures.field_picture import fields_svg
from lakelog.lineage.tables.known_runs import known_fields
from lakelog.warehouse.warehouse import Warehouse

PICTURE_DATASETS_MAX = 300
Named = str | tuple[str, str]
"""A table of a catalog, `db.orders`, a branch of it, `db.orders$branch_b`, the folder of a table, or the namespace and
the name of another dataset."""


def field_index(*catalogs: Warehouse) -> FieldIndex:
    """All that is known of the lineage of fields in catalogs, for several questions."""
    return build_index(known_fields(*catalogs))


def fields(
    catalog: Warehouse,
    table: Named,
    field: str | None = None,
    *,
    direction: str = UP,
    depth: int | None = None,
    at: int | None = None,
    start: Timestamp | None = None,
    end: Timestamp | None = None,
    direct_only: bool = False,
    catalogs: Sequence[Warehouse] = (),
    index: FieldIndex | None = None,
) -> FieldAnswer:
    """What a field is made from (`up`), what is made from it (`down`), or both; without a field, of all of a table.

        fields(catalog, "db.report", "total").to_polars()

    `depth` is the number of hops, all by default. `at` asks for what made one snapshot of the table. `start` and `end`
    ask for the runs of jobs that overlap this range, the end not included. `direct_only` leaves out what only decides,
    such as filters. `catalogs` are further catalogs, `index` is the `field_index` of the same catalogs, for several
    questions. Raises NotFoundError, InvalidRequestError.
    """
    known = field_index(catalog, *catalogs) if index is None else index
    question = asked_in_catalogs(
        known,
        [catalog, *catalogs],
        table,
        field,
        direction=direction,
        depth=depth,
        at=at,
        start=start,
        end=end,
        direct_only=direct_only,
    )
    return replace(edges_answer(known, question), _draw=partial(picture_of, known, question))


def picture_of(index: FieldIndex, question: Asked) -> str:
    """The picture of an answer, as SVG. Raises InvalidRequestError for too many tables."""
    graph = graph_answer(index, question, limit=PICTURE_DATASETS_MAX)
    if graph.neighbours is not None:
        raise InvalidRequestError(
            f"a picture of {graph.total} tables cannot be drawn, at most {PICTURE_DATASETS_MAX} are allowed; ask for "
            "fewer hops: depth=, --depth"
        )
    return fields_svg(graph)


def impact(
    catalog: Warehouse,
    table: Named,
    field: str | None = None,
    *,
    depth: int | None = None,
    start: Timestamp | None = None,
    end: Timestamp | None = None,
    direct_only: bool = False,
    catalogs: Sequence[Warehouse] = (),
    index: FieldIndex | None = None,
) -> pa.Table:
    """What breaks if a field goes: each field that is made from it or that it decides about, the nearest first.

    One row per field, with its `depth`, the jobs that write it, `type` DIRECT or INDIRECT, and the `kinds` of all paths
    to it. The arguments are those of `fields`.
    """
    known = field_index(catalog, *catalogs) if index is None else index
    question = asked_in_catalogs(
        known, [catalog, *catalogs], table, field, depth=depth, start=start, end=end, direct_only=direct_only
    )
    return impact_answer(known, question)


def asked_in_catalogs(
    index: FieldIndex,
    catalogs: Sequence[Warehouse],
    table: Named,
    field: str | None,
    *,
    direction: str = UP,
    depth: int | None = None,
    at: int | None = None,
    start: Timestamp | None = None,
    end: Timestamp | None = None,
    direct_only: bool = False,
) -> Asked:
    """The question, with its table and field found. Raises NotFoundError, InvalidRequestError."""
    owner, one = asked(index, dataset_named(table), field)
    if at is None:
        first, last = (None if time is None else millis_of(time) for time in (start, end))
        period = period_between(index, first, last)
    elif start is not None or end is not None:
        raise InvalidRequestError("at= names a snapshot, start= and end= name a time; give one of them")
    else:
        period = _period_at(index, catalogs, owner, at)
    return Asked(dataset=owner, field=one, direction=direction, depth=depth, period=period, direct_only=direct_only)


def dataset_named(table: Named) -> Dataset:
    """The dataset that a user names. Raises InvalidRequestError for another type."""
    if isinstance(table, str):
        return dataset_of_table(table)
    if isinstance(table, tuple) and len(table) == 2 and all(isinstance(part, str) for part in table):
        return Dataset(*table)
    raise InvalidRequestError(
        f"the table is {typed(table)}; expected a name such as 'db.orders', or a namespace and a name"
    )


def split_name(index: FieldIndex, text: str) -> tuple[Dataset, str | None]:
    """The dataset and the field in `database.table.column`; None for the field if only a dataset is named.

    Names may have dots: the longest dataset that has the rest as a field counts. Raises NotFoundError.
    """
    names = {".".join(one.dataset): one for one in index.datasets()}
    if text in names:
        return names[text].dataset, None
    found = [name for name in names if text.startswith(f"{name}.")]
    for name in sorted(found, key=len, reverse=True):
        if index.find_field(names[name], text.removeprefix(f"{name}.")) is not None:
            return names[name].dataset, text.removeprefix(f"{name}.")
    if found:
        longest = max(found, key=len)
        index.field(names[longest], text.removeprefix(f"{longest}."))
    parts = text.split(".", 2)
    return index.dataset(Dataset(parts[0], ".".join(parts[1:2]))).dataset, None


def millis_of_snapshot(catalogs: Sequence[Warehouse], name: str, snapshot: int) -> int | None:
    """When a snapshot of a table was committed; None if it does not live."""
    try:
        found = FoundTables(catalogs).named(name).snapshots.find(snapshot)
    except (NotFoundError, InvalidRequestError):  # a dataset that is not a table of these catalogs
        return None
    return None if found is None else found.time_millis


def _period_at(index: FieldIndex, catalogs: Sequence[Warehouse], owner: IndexedDataset, snapshot: int) -> Period:
    millis = millis_of_snapshot(catalogs, ".".join(owner.dataset), snapshot) if owner.is_present else None
    return period_at(index, owner, snapshot, millis)

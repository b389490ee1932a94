"""Questions of users about the fields of tables in catalogs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import typed
from lakelog.common.timestamps import Timestamp, millis_of
from lakelog.lineage.columns.dataset_names import dataset_of_table
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.questions.field_answer import UP, FieldAnswer
from lakelog.lineage.columns.questions.field_index import FieldIndex, build_index
from lakelog.lineage.columns.questions.field_questions import Asked, asked, edges_answer, impact_answer
from lakelog.lineage.columns.questions.index_rows import IndexedDataset
from lakelog.lineage.columns.questions.periods import Period, period_at, period_between
from lakelog.lineage.page.page_state import KnownState
from lakelog.lineage.page.saved_page import HOPS_MAX, SavedPage
from lakelog.lineage.page.table_histories import TableHistories, millis_of_snapshot
from lakelog.lineage.tables.warehouse_lineage import known_fields
from lakelog.warehouse.warehouse import Warehouse

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
    page = partial(
        page_of,
        known,
        [catalog, *catalogs],
        question,
        {"at": "" if at is None else str(at), "start": _seconds(start), "end": _seconds(end)},
    )
    return replace(edges_answer(known, question), _page=page)


def page_of(index: FieldIndex, catalogs: Sequence[Warehouse], question: Asked, times: Mapping[str, str]) -> str:
    """The page of an answer, one file; `times` has `at`, or `start` and `end` in seconds.

    Raises InvalidRequestError for too many tables.
    """
    query = {
        "ns": question.dataset.namespace,
        "dataset": question.dataset.name,
        "field": "" if question.field is None else question.field.name,
        "direction": question.direction,
        "depth": str(min(question.depth or HOPS_MAX, HOPS_MAX)),
        "kinds": "direct" if question.direct_only else "",
        **times,
    }
    return SavedPage(KnownState(index, TableHistories(catalogs)), query).html()


def _seconds(time: Timestamp | None) -> str:
    return "" if time is None else str(millis_of(time) // 1_000)


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


def _period_at(index: FieldIndex, catalogs: Sequence[Warehouse], owner: IndexedDataset, snapshot: int) -> Period:
    millis = millis_of_snapshot(catalogs, ".".join(owner.dataset), snapshot) if owner.is_present else None
    return period_at(index, owner, snapshot, millis)

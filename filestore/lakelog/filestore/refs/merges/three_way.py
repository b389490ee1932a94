"""The three-way merge of rows with a key: the rows of base, table and branch for each key, and the result. Pure.

A key that only one side has changed takes that side's row; a key that both have changed in the same way stays as it is;
a key that both have changed differently is a conflict, decided by a rule. A missing row counts as a row: a delete on
one side and an update on the other are a conflict too. What is written changes the table: no delete of a row that it
lacks, and no row that it has, but for rows that the branch alone has written again: they are not looked up, or a merge
would cost by the size of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from lakelog.common.types import DataField
from lakelog.filestore.merge.deduplicate import are_adds
from lakelog.filestore.merge.order import is_last_of_key, key_frame, to_series
from lakelog.filestore.refs.merges.conflict_list import conflict_rows
from lakelog.filestore.refs.merges.merge_rules import ConflictRules, Rule, merged_columns
from lakelog.filestore.refs.merges.sides import BUCKET, SIDE, Side
from lakelog.filestore.refs.states.row_equality import are_equal, are_same
from lakelog.filestore.schema.schema import SEQUENCE_NUMBER, VALUE_KIND

RowsOfKeys = Callable[[pa.Table], pa.Table]
"""The rows of a state that have the keys of these rows."""
_ROW, _SEQUENCE, _IS_ADD = "row", "sequence", "is_add"
_OTHER_SIDES = (Side.BASE_OF_BRANCH, Side.BRANCH, Side.BASE_OF_MAIN, Side.MAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookups:
    """Finds rows in files which were not read: of the base, and of the two sides; None if all files are read."""

    base: RowsOfKeys
    branch: RowsOfKeys | None
    main: RowsOfKeys | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartMerge:
    """The merge of the keys of a part: rows to write, rows to delete, and the conflicts, decided or open.

    `conflicts` has the columns of the key, `base`, `main`, `branch` and `decision`, see `conflict_list`.
    """

    upserts: pa.Table
    deletes: pa.Table
    conflicts: pa.Table
    open_count: int


def merge_part(
    part: pa.Table,
    fields: Sequence[DataField],
    key_names: Sequence[str],
    rules: ConflictRules,
    lookups: Lookups,
) -> PartMerge:
    """Merge the rows of a part. All rows of a key are in the same part."""
    names = [field.name for field in fields]
    key_fields = [field for field in fields if field.name in key_names]
    frame, rows = _by_key(part, key_fields), part.select(names)
    for old, new, lookup in (
        (Side.BASE_OF_BRANCH, Side.BRANCH, lookups.branch),
        (Side.BASE_OF_MAIN, Side.MAIN, lookups.main),
    ):
        if lookup is not None:
            frame, rows = _with_older(frame, rows, key_fields, old, new, lookup)

    def live(side: Side) -> pl.Series:
        return frame[f"live{int(side)}"]

    def is_there(side: Side) -> pl.Series:
        return frame[f"there{int(side)}"]

    of_branch, of_main = live(Side.BRANCH), live(Side.MAIN)
    touched = [
        (is_there(old) | is_there(new)) & ~(is_there(old) & are_same(rows, fields, live(old), live(new)))
        for old, new in ((Side.BASE_OF_BRANCH, Side.BRANCH), (Side.BASE_OF_MAIN, Side.MAIN))
    ]
    both = touched[0] & touched[1] & ~are_same(rows, fields, of_branch, of_main)
    known = is_there(Side.BASE_OF_BRANCH) | is_there(Side.BASE_OF_MAIN)
    of_base = (
        pl.select(
            pl.when(is_there(Side.BASE_OF_BRANCH)).then(live(Side.BASE_OF_BRANCH)).otherwise(live(Side.BASE_OF_MAIN))
        )
        .to_series()
        .cast(pl.UInt32)
    )
    takes_branch = touched[0] & ~touched[1]
    unknown = np.flatnonzero(((both | (takes_branch & of_branch.is_null())) & ~known).to_numpy())
    if len(unknown) and lookups.main is not None:  # otherwise the base was asked for all keys
        rows, places = _looked_up(rows, _keys_of(rows, key_fields, frame[unknown]), key_fields, lookups.base)
        of_base = of_base.scatter(unknown, places)
    if both.any():
        branch_changed, main_changed = (~are_same(rows, fields, of_base, side) for side in (of_branch, of_main))
        takes_branch |= both & branch_changed & ~main_changed
        conflicts = both & branch_changed & main_changed
    else:
        conflicts = both
    decided = _Decided.of(rows, fields, key_fields, rules, [of_base, of_main, of_branch], conflicts, frame)
    is_of_main = is_there(Side.BASE_OF_MAIN) | is_there(Side.MAIN)
    present = pl.select(pl.when(is_of_main).then(of_main).otherwise(of_base)).to_series()
    takes_branch &= ~are_same(rows, fields, of_branch, present)
    upserts, deletes = takes_branch & of_branch.is_not_null(), takes_branch & of_branch.is_null()
    return PartMerge(
        upserts=pa.concat_tables([rows.take(of_branch.filter(upserts).to_arrow()), decided.upserts]),
        deletes=pa.concat_tables([rows.take(present.filter(deletes).to_arrow()), decided.deletes]),
        conflicts=decided.conflicts,
        open_count=decided.open_count,
    )


def _by_key(part: pa.Table, key_fields: Sequence[DataField]) -> pl.DataFrame:
    """Each key once: where its row is on each side (`at0`), whether it lives (`live0`), and `there0`.

    Among the rows of a bucket the youngest counts; among several buckets, the one that has the key.
    """
    keys = key_frame(part, key_fields)
    names = keys.columns
    frame = keys.with_columns(
        pl.int_range(pl.len(), dtype=pl.UInt32).alias(_ROW),
        to_series(part.column(SIDE)).alias(SIDE),
        to_series(part.column(BUCKET)).alias(BUCKET),
        to_series(part.column(SEQUENCE_NUMBER)).alias(_SEQUENCE),
        are_adds(to_series(part.column(VALUE_KIND))).alias(_IS_ADD),
    ).sort(*names, SIDE, BUCKET, _SEQUENCE, _IS_ADD, maintain_order=True)
    counted = frame.filter(is_last_of_key(frame, [*names, SIDE, BUCKET]))
    is_one = is_last_of_key(counted, [*names, SIDE])
    if not is_one.all():  # a key in several buckets
        counted = counted.sort(*names, SIDE, _IS_ADD, maintain_order=True)
        counted = counted.filter(is_last_of_key(counted, [*names, SIDE]))
    is_last = is_last_of_key(counted, names)
    found = counted.filter(is_last).select(names)
    ends = is_last.to_numpy()
    keys_before = np.cumsum(ends) - ends
    rows, sides, adds = (counted[name].to_numpy() for name in (_ROW, SIDE, _IS_ADD))
    for side in _OTHER_SIDES:
        own = sides == int(side)
        at = np.full(found.height, -1, np.int64)
        at[keys_before[own]] = rows[own]
        live = np.full(found.height, -1, np.int64)
        live[keys_before[own & adds]] = rows[own & adds]
        found = found.with_columns(
            _places(at).alias(f"at{int(side)}"),
            _places(live).alias(f"live{int(side)}"),
            pl.Series(f"there{int(side)}", at >= 0),
        )
    return found


def _places(at: np.ndarray) -> pl.Series:
    """Places of rows, null below 0."""
    return pl.select(pl.when(pl.lit(at >= 0)).then(pl.lit(at))).to_series().cast(pl.UInt32)


def _with_older(  # noqa: PLR0917  # the two sides of a line
    frame: pl.DataFrame,
    rows: pa.Table,
    key_fields: Sequence[DataField],
    old: Side,
    new: Side,
    lookup: RowsOfKeys,
) -> tuple[pl.DataFrame, pa.Table]:
    """The frame and the rows, with the rows of `new` that are in files which `new` shares with `old`.

    A key that is only in files of the old state was deleted, or has an older row again after a restore.
    """
    missing = np.flatnonzero((frame[f"there{int(old)}"] & ~frame[f"there{int(new)}"]).to_numpy())
    if not len(missing):
        return frame, rows
    rows, places = _looked_up(rows, _keys_of(rows, key_fields, frame[missing]), key_fields, lookup)
    name = f"live{int(new)}"
    return frame.with_columns(frame[name].cast(pl.UInt32).scatter(missing, places).alias(name)), rows


def _looked_up(
    rows: pa.Table, keys: pa.Table, key_fields: Sequence[DataField], lookup: RowsOfKeys
) -> tuple[pa.Table, pl.Series]:
    """The rows, followed by the rows that are found for the keys; and for each key the place of its row, or null."""
    found = lookup(keys)
    there = key_frame(found, key_fields).with_row_index(_ROW)
    names = there.columns[1:]
    asked = key_frame(keys, key_fields)
    places = asked.join(there, on=names, how="left", nulls_equal=True, maintain_order="left")[_ROW] + rows.num_rows
    return pa.concat_tables([rows, found.select(rows.column_names).cast(rows.schema)]), places.cast(pl.UInt32)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decided:
    """Conflicts as the rules decide them."""

    upserts: pa.Table
    deletes: pa.Table
    conflicts: pa.Table
    open_count: int

    @classmethod
    def of(  # noqa: PLR0917  # the three sides of each key
        cls,
        rows: pa.Table,
        fields: Sequence[DataField],
        key_fields: Sequence[DataField],
        rules: ConflictRules,
        sides: Sequence[pl.Series],
        is_conflict: pl.Series,
        frame: pl.DataFrame,
    ) -> _Decided:
        base, main, branch = (rows.take(side.filter(is_conflict).to_arrow()) for side in sides)
        is_base, is_main, is_branch = (side.filter(is_conflict).is_not_null().to_numpy() for side in sides)
        count = main.num_rows
        result, decisions = branch, np.full(count, str(rules.of_rows), dtype=object)
        writes = is_branch & (rules.of_rows is Rule.BRANCH)
        if rules.by_column and count:
            others = [field for field in fields if field not in key_fields]
            plain = [field.name for field in others]
            merged, is_open = merged_columns(
                base.select(plain), main.select(plain), branch.select(plain), others, rules
            )
            live = is_main & is_branch
            for name in plain:
                result = result.set_column(
                    result.column_names.index(name),
                    rows.schema.field(name),
                    pa.chunked_array(
                        [*merged.column(name).chunks, *branch.column(name).chunks], rows.schema.field(name).type
                    ).take(pa.array(np.arange(count) + np.where(live, 0, count))),
                )
            decisions[live & ~is_open] = "columns"
            decisions[live & is_open] = str(Rule.FAIL)
            writes = (live & ~is_open) | (writes & ~live)
        if count:
            writes &= ~are_equal(main, result, fields)
        deletes = ~is_branch & (decisions == str(Rule.BRANCH))
        return cls(
            upserts=result.filter(pa.array(writes)),
            deletes=main.filter(pa.array(deletes)),
            conflicts=conflict_rows(
                _keys_of(rows, key_fields, frame.filter(is_conflict)),
                ((base, is_base), (main, is_main), (branch, is_branch)),
                decisions,
            ),
            open_count=int((decisions == str(Rule.FAIL)).sum()),
        )


def _keys_of(rows: pa.Table, key_fields: Sequence[DataField], frame: pl.DataFrame) -> pa.Table:
    places = frame.select(pl.coalesce(f"at{int(side)}" for side in _OTHER_SIDES)).to_series()
    return rows.select([field.name for field in key_fields]).take(places.to_arrow())

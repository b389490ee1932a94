"""Gathers the rows of a three-way merge by side.

They are what branch and table have in files that the base lacks, and the other way round.

There are four sides: the rows that the base has in files that differ from the branch's, and the branch's; the rows that
the base has in files that differ from the table's, and the table's. They are gathered within the memory budget; what
exceeds it goes to temporary files, split by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.types import DataField
from lakelog.filestore.data.data_reader import read_data_file, row_bytes
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import KIND_FIELD, SEQUENCE_FIELD
from lakelog.filestore.read.bucket_reader import COPIES
from lakelog.filestore.refs.states.commit_changes import differences_by_commits
from lakelog.filestore.refs.states.net_change import BucketDifference, differences
from lakelog.filestore.refs.states.rows_of_keys import rows_of_keys
from lakelog.filestore.refs.states.table_state import StateFile, TableState
from lakelog.filestore.schema.counted_schema import COUNT_COLUMN, count_field
from lakelog.filestore.schema.schema import SEQUENCE_NUMBER, VALUE_KIND
from lakelog.filestore.schema.schema_rules import KEY_PREFIX
from lakelog.filestore.write.key_parts import KeyParts

LOOKUP_RATIO_MIN = 4  # a lookup reads the keys of whole row groups
LOOKUP_ROWS_MIN = 100_000
# Names that no column of a table has: the prefix is reserved by the format.
SIDE, BUCKET = f"{KEY_PREFIX}side", f"{KEY_PREFIX}bucket"
BRANCH_DELTA, MAIN_DELTA = f"{KEY_PREFIX}branch", f"{KEY_PREFIX}main"


class Side(IntEnum):
    """The side that a row belongs to."""

    BASE_OF_BRANCH = 0
    BRANCH = 1
    BASE_OF_MAIN = 2
    MAIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreeStates:
    """The states to merge: the newest snapshots of table and branch, and the state that both come from."""

    base: TableState
    main: TableState
    branch: TableState
    ancestor: TableState | None = None
    """A state before all three, in the histories of table and branch, if one is known: such as the fork."""

    @property
    def fields(self) -> Sequence[DataField]:
        """The columns of the merge: the table's."""
        return self.main.table.schema.fields


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedDifferences:
    """The files in which branch and table differ from the base.

    With `looks_up_main` the branch's keys are looked up in the table, which differs in many more rows than the branch
    does: so if only the table was compacted, and those commits have expired, a merge does not read the whole table.
    """

    of_branch: Sequence[BucketDifference]
    of_main: Sequence[BucketDifference]
    looks_up_main: bool

    @classmethod
    def of(cls, states: ThreeStates, *, budget_bytes: int, by_commits: bool = True) -> KeyedDifferences:
        """Reads only manifests. Without `by_commits` the states are compared, not the commits in between."""
        found = []
        for new in (states.branch, states.main):
            compared = list(differences(states.base, new))
            if by_commits and _row_count(compared) > LOOKUP_ROWS_MIN:
                ancestor = states.base if new is states.branch else states.ancestor or states.base
                committed = differences_by_commits(ancestor, states.base, new)
                if committed is not None and _row_count(committed) < _row_count(compared):
                    compared = committed
            found.append(compared)
        branch, main = (_row_count(one) for one in found)
        is_larger = main > LOOKUP_ROWS_MIN and main > LOOKUP_RATIO_MIN * branch
        fits = branch * row_bytes(states.fields) <= budget_bytes  # each part of the keys would be a lookup
        return cls(of_branch=found[0], of_main=found[1], looks_up_main=is_larger and fits)


def _row_count(found: Iterable[BucketDifference]) -> int:
    return sum(one.row_count for one in found)


def add_keyed(parts: KeyParts, states: ThreeStates, found: KeyedDifferences, *, budget_bytes: int) -> int:
    """Add the rows of a table with primary key that differ; only those of the branch if the table's are looked up.

    Returns their number.
    """
    pairs = [(states.branch, Side.BASE_OF_BRANCH, Side.BRANCH, found.of_branch)]
    if not found.looks_up_main:
        pairs.append((states.main, Side.BASE_OF_MAIN, Side.MAIN, found.of_main))
    numbers: dict[BucketId, int] = {}
    count = 0
    for new, old_side, new_side, of_side in pairs:
        for difference in of_side:
            number = numbers.setdefault(difference.bucket, len(numbers))
            olds, news = [*difference.only_old, *difference.companions], [*difference.only_new, *difference.companions]
            for state, side, files in ((states.base, old_side, olds), (new, new_side, news)):
                for rows in keyed_rows(state, difference.bucket, files, states.fields, budget_bytes=budget_bytes):
                    count += rows.num_rows
                    parts.add(_with(rows, {SIDE: int(side), BUCKET: number}, pa.int32()))
    return count


def with_main_rows(part: pa.Table, states: ThreeStates, key_names: Sequence[str]) -> pa.Table:
    """A part of the branch's rows, and the rows that table and base have of its keys."""
    keys = part.select(key_names)
    found = [part]
    for state, side in ((states.base, Side.BASE_OF_MAIN), (states.main, Side.MAIN)):
        rows = rows_of_keys(state, keys, states.fields)
        zeros = np.zeros(rows.num_rows, np.int64)
        stored = rows.append_column(SEQUENCE_NUMBER, pa.array(zeros)).append_column(
            VALUE_KIND, pa.array(zeros.astype(np.int8))
        )
        found.append(_with(stored, {SIDE: int(side), BUCKET: -1}, pa.int32()).cast(part.schema))
    return pa.concat_tables(found)


def add_counted(parts: KeyParts, states: ThreeStates, new: TableState, column: str, *, budget_bytes: int) -> int:
    """Add the rows without key that differ between base and `new`, with their copies; returns the number."""
    other = MAIN_DELTA if column == BRANCH_DELTA else BRANCH_DELTA
    count = 0
    for difference in differences(states.base, new):
        for state, files, sign in ((states.base, difference.only_old, -1), (new, difference.only_new, 1)):
            for rows, counts in counted_rows(state, difference.bucket, files, states.fields, budget_bytes=budget_bytes):
                count += rows.num_rows
                deltas = {column: pa.array(counts * sign), other: pa.array(np.zeros(rows.num_rows, np.int64))}
                with_branch = rows.append_column(BRANCH_DELTA, deltas[BRANCH_DELTA])
                parts.add(with_branch.append_column(MAIN_DELTA, deltas[MAIN_DELTA]))
    return count


def keyed_rows(
    state: TableState, bucket: BucketId, files: Iterable[StateFile], fields: Sequence[DataField], *, budget_bytes: int
) -> Iterator[pa.Table]:
    """The rows of files in the columns `fields` of another line, with sequence numbers and kinds."""
    schema = to_arrow_schema([*fields, SEQUENCE_FIELD, KIND_FIELD])
    own = [*state.table.schema.select(field.name for field in fields), SEQUENCE_FIELD, KIND_FIELD]
    for batch in _batches(state, bucket, files, own, budget_bytes):
        yield pa.Table.from_batches([batch.select(schema.names)]).cast(schema)


def counted_rows(
    state: TableState, bucket: BucketId, files: Iterable[StateFile], fields: Sequence[DataField], *, budget_bytes: int
) -> Iterator[tuple[pa.Table, np.ndarray]]:
    """The rows of files in the columns `fields` of another line, and how often each occurs."""
    schema = to_arrow_schema(fields)
    own = list(state.table.schema.select(field.name for field in fields))
    is_counted = state.table.schema.is_change_log
    for batch in _batches(state, bucket, files, [*own, *_counts(state)], budget_bytes):
        rows = pa.Table.from_batches([batch.select(schema.names)]).cast(schema)
        ones = np.ones(rows.num_rows, np.int64)
        yield rows, np.asarray(batch.column(COUNT_COLUMN).to_numpy(), np.int64) if is_counted else ones


def _counts(state: TableState) -> list[DataField]:
    return [count_field(state.table.schema)] if state.table.schema.is_change_log else []


def _batches(
    state: TableState, bucket: BucketId, files: Iterable[StateFile], fields: Sequence[DataField], budget_bytes: int
) -> Iterator[pa.RecordBatch]:
    for file, vector in files:
        yield from read_data_file(
            state.table.stored, bucket, file, fields, piece_bytes=budget_bytes // COPIES, deletions=vector
        )


def _with(rows: pa.Table, constants: dict[str, int], kind: pa.DataType) -> pa.Table:
    for name, value in constants.items():
        rows = rows.append_column(name, pa.repeat(pa.scalar(value, kind), rows.num_rows))
    return rows

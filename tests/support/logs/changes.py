"""Change histories with their truth: what a stream is fed with, and the rows that must be there after each file."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

Row = tuple[int, str, int | None]

TABLE_SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string()), pa.field("amount", pa.int64())]
)
CHANGE_SCHEMA = TABLE_SCHEMA.append(pa.field("_row_kind", pa.string()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeHistory:
    """Files of changes with old values, in order, and the table's rows after each of them."""

    files: Sequence[Sequence[tuple[str, Row]]]
    truths: Sequence[frozenset[Row]]


def make_history(seed: int, *, files: int, changes_per_file: int, keys: int, first_key: int = 0) -> ChangeHistory:
    """A history in which every update and delete carries the old row, as `log.changelog-mode=all` wants it."""
    rng = random.Random(seed)
    rows: dict[int, Row] = {}
    all_files: list[list[tuple[str, Row]]] = []
    truths: list[frozenset[Row]] = []
    for number in range(files):
        changes: list[tuple[str, Row]] = []
        for place in range(changes_per_file):
            key = first_key + rng.randrange(keys)
            amount = None if rng.random() < 0.1 else rng.randrange(10**12)
            after = (key, f'f{number}-{place} ü"', amount)
            before = rows.get(key)
            if before is None:
                changes.append(("+I", after))
                rows[key] = after
            elif rng.random() < 0.2:
                changes.append(("-D", before))
                del rows[key]
            else:
                changes += [("-U", before), ("+U", after)]
                rows[key] = after
        all_files.append(changes)
        truths.append(frozenset(rows.values()))
    return ChangeHistory(files=all_files, truths=truths)


def make_additions(seed: int, *, files: int, changes_per_file: int, keys: int, first_key: int = 0) -> ChangeHistory:
    """A history of new rows alone, all different; keys repeat."""
    rng = random.Random(seed)
    all_files: list[list[tuple[str, Row]]] = []
    truths: list[frozenset[Row]] = []
    rows: list[Row] = []
    for number in range(files):
        added = [(first_key + rng.randrange(keys), f"{number}-{place}", place) for place in range(changes_per_file)]
        rows += added
        all_files.append([("+I", row) for row in added])
        truths.append(frozenset(rows))
    return ChangeHistory(files=all_files, truths=truths)


def make_sums(seed: int, *, files: int, changes_per_file: int, keys: int, first_key: int = 0) -> ChangeHistory:
    """A history for a table that adds amounts up by `id`, and keeps the last name."""
    given = make_additions(seed, files=files, changes_per_file=changes_per_file, keys=keys, first_key=first_key)
    truths: list[frozenset[Row]] = []
    sums: dict[int, Row] = {}
    for changes in given.files:
        for _, (key, name, amount) in changes:
            before = sums.get(key)
            sums[key] = (key, name, (amount or 0) + (0 if before is None else before[2] or 0))
        truths.append(frozenset(sums.values()))
    return ChangeHistory(files=given.files, truths=truths)


def write_files(history: ChangeHistory, folder: Path) -> None:
    """One Parquet file a step, with rising modification times: Spark's file source takes them in that order."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, changes in enumerate(history.files):
        kinds = [kind for kind, _ in changes]
        columns = [list(column) for column in zip(*(row for _, row in changes), strict=True)]
        path = folder / f"changes-{number:04d}.parquet"
        pq.write_table(pa.table([*columns, kinds], schema=CHANGE_SCHEMA), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))

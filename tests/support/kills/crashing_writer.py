"""A local writer that dies after so many steps, again and again, and is started anew with the batch it was at."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any  # Any: values of every column type

import pyarrow as pa

from lakelog.catalog import Table
from lakelog.protocol.state.steps import Step
from tests.support.logs.local_writer import LocalWriter


class InjectedCrash(Exception):
    """The process dies here."""


class CrashingWriter:
    """Writes batches as the user `q`; `crashes` are the counts of steps after which each process in turn dies."""

    def __init__(self, table: Table, crashes: Sequence[int]) -> None:
        self._table = table
        self._crashes = iter(crashes)
        self._start()

    def write(self, identifier: int, rows: pa.Table, kinds: pa.Array) -> None:
        """Write a batch, in as many processes as it takes."""
        while True:
            try:
                self._writer.write(identifier, rows, kinds)
                break
            except InjectedCrash:
                self._start()

    def _start(self) -> None:
        steps_left = _countdown(next(self._crashes, None))

        def observe(step: Step, user: str, identifier: int, bucket: int | None) -> None:
            if next(steps_left) == 0:
                raise InjectedCrash(step)

        self._writer = LocalWriter(self._table, "q", observe=observe)


def _countdown(steps: int | None) -> Iterator[int]:
    """Counts to 0 in so many steps; never gets there for None."""
    return itertools.count(1 if steps is None else -steps)


def table_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Rows of Python's values as a table."""
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in schema]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)

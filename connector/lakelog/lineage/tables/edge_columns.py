"""The columns of edges, and as arrays of numbers, -1 means unknown; and since when a line has had its living snapshots.

For a snapshot that was written to the line, that is the time of the commit. A line gets other snapshots later: a branch
gets those of its table up to its beginning when it is created; a table gets those of a branch, up to the snapshot that
it takes, when it takes the branch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any  # Any: the values of a row

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.filestore.metadata.origins import ReadMode

# `sink_snapshot` is the first in which the batch is whole, `barrier_id` is Spark's number of the micro-batch, null for
# a batch write. `source_kind` is `table`, `foreign`, `unknown`, or null for a batch without sources. `foreign_from` and
# `foreign_to` are offsets in the notation of a foreign source, `source_log` has those of a log as in the record. A
# branch is null for the main line.
EDGE_SCHEMA = pa.schema(
    [
        ("job", pa.string()),
        ("query_id", pa.string()),
        ("run_id", pa.string()),
        ("operation", pa.string()),
        pa.field("sink_uuid", pa.string(), nullable=False),
        pa.field("sink_table", pa.string(), nullable=False),
        ("sink_branch", pa.string()),
        pa.field("sink_snapshot", pa.int64(), nullable=False),
        ("sink_commit", pa.string()),
        pa.field("sink_time", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("user", pa.string(), nullable=False),
        pa.field("identifier", pa.int64(), nullable=False),
        ("barrier_id", pa.int64()),
        ("source_kind", pa.string()),
        ("source_uuid", pa.string()),
        ("source_table", pa.string()),
        ("source_branch", pa.string()),
        ("mode", pa.string()),
        ("source_from", pa.int64()),
        ("source_from_commit", pa.string()),
        ("source_to", pa.int64()),
        ("source_to_commit", pa.string()),
        ("exact", pa.bool_()),
        ("why", pa.string()),
        ("source_path", pa.string()),
        ("source_log", pa.string()),
        ("foreign_from", pa.string()),
        ("foreign_to", pa.string()),
    ]
)
# A row of EDGE_SCHEMA; what is missing is null. `fields` beside them has the checksums of the lineage of its fields.
Edge = dict[str, Any]

FORK_OPERATION = "BRANCH"  # the operation of the edge of a fork
# The reason in the edge of a branch that its table has taken: then the branch continues after a snapshot of its own.
TAKEN = "the table has taken the branch up to here"
TAKEN_SOMETIME = f"{TAKEN}, and when is not known"

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
UNKNOWN = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class LineTimes:
    """The lines that have got snapshots of another line, up to which number, and when: UNKNOWN is after all times."""

    lines: Ints
    numbers: Ints
    times: Ints

    @classmethod
    def of(cls, edges: pa.Table, *, sinks: Ints, sources: Ints, numbers: Ints, times: Ints) -> LineTimes:
        """The times that edges give, with the numbers of their lines and of the snapshots that they were written to."""
        begins, takes = beginnings(edges)
        when = np.where(truths(pc.equal(edges["why"], TAKEN_SOMETIME)), UNKNOWN, times)
        return cls(
            lines=np.concatenate([sinks[begins], sources[takes]]),
            numbers=np.concatenate([numbers[begins], numbers[takes]]),
            times=np.concatenate([when[begins], when[takes]]),
        )

    def since(self, line: int, commits: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], int]:
        """Since when, at the latest, a line has had snapshots, by number and commit. `commits` has their own times."""
        of_line = self.lines == line
        numbers, times = self.numbers[of_line], self.times[of_line]
        return {one: max([time, *times[numbers >= one[0]].tolist()]) for one, time in commits.items()}


def beginnings(edges: pa.Table) -> tuple[Mask, Mask]:
    """Which edges are beginnings of branches, and which of these are of branches that their tables have taken."""
    begins = truths(pc.equal(edges["operation"], FORK_OPERATION))
    return begins, begins & truths(pc.starts_with(edges["why"], TAKEN))


def truths(column: pa.ChunkedArray) -> Mask:
    """A boolean column, with null as False."""
    return np.asarray(pc.fill_null(column, False).to_numpy(), dtype=np.bool_)


NONE = -1


def reads_states(edges: pa.Table) -> Mask:
    """Whether edges read a state: batch reads do, except the merge of a branch, which takes changes."""
    is_batch = truths(pc.equal(edges["mode"], ReadMode.BATCH.value))
    is_own = truths(pc.equal(edges["source_uuid"], edges["sink_uuid"]))
    return is_batch & ~(is_own & truths(pc.is_valid(edges["source_branch"])))


def coded_name(uuid: str, branch: str | None) -> str:
    return f"{uuid}\0{branch or ''}"


def line_column(edges: pa.Table, end: str) -> pa.ChunkedArray:
    branches = pc.fill_null(edges[f"{end}_branch"], "")
    return pc.binary_join_element_wise(pc.fill_null(edges[f"{end}_uuid"], ""), branches, "\0")


def coded_columns(*columns: pa.ChunkedArray) -> tuple[Sequence[Ints], list[str]]:
    """Columns of strings of one length as numbers, -1 for null; followed by the strings."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    coded = pa.chunked_array(chunks, type=pa.string()).combine_chunks().dictionary_encode()
    numbers = pc.fill_null(coded.indices.cast("int64"), NONE).to_numpy(zero_copy_only=False)
    return list(numbers.reshape(len(columns), -1)), coded.dictionary.to_pylist()


def int_column(column: pa.ChunkedArray) -> Ints:
    return np.asarray(pc.fill_null(column.cast("int64"), NONE).to_numpy())

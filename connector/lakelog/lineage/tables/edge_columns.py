"""The columns of edges as arrays of numbers; -1 means unknown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.filestore.metadata.origins import ReadMode
from lakelog.lineage.tables.line_times import Ints, Mask, truths

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

"""The living files among the entries of manifests, as columns."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.metadata.manifests.manifest import FileKind
from lakelog.filestore.system import live_columns

SCHEMA = {name: live_columns._SCHEMA[name] for name in (*live_columns._OF_IDENTITY, "row_count")}
File = tuple[int, int, str]  # bucket, level, name


def frame(entries: Sequence[tuple[FileKind, File]]) -> pl.DataFrame:
    rows = [
        {
            "kind": int(kind),
            "partition": b"p",
            "bucket": bucket,
            "level": level,
            "file_name": name,
            "extra_files": [],
            "row_count": number,
        }
        for number, (kind, (bucket, level, name)) in enumerate(entries)
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


def living(entries: Sequence[tuple[FileKind, File]]) -> list[File]:
    found = live_columns._living(frame(entries), 7)
    return [(row["bucket"], row["level"], row["file_name"]) for row in found.iter_rows(named=True)]


files = st.tuples(st.integers(0, 1), st.integers(0, 1), st.sampled_from("abcde"))


@given(touched=st.lists(files, max_size=30))
def test_what_is_left_are_the_files_added_last_in_their_order(touched: list[File]) -> None:
    """Each file is added and deleted in turn, under names that files of other buckets and levels have too."""
    state: dict[File, None] = {}
    entries = []
    for file in touched:
        entries.append((FileKind.DELETE if file in state else FileKind.ADD, file))
        if file in state:
            del state[file]
        else:
            state[file] = None
    assert living(entries) == list(state)


@pytest.mark.parametrize(
    "kinds",
    [
        [FileKind.DELETE],
        [FileKind.ADD, FileKind.ADD],
        [FileKind.ADD, FileKind.DELETE, FileKind.DELETE],
        [FileKind.ADD, FileKind.DELETE, FileKind.ADD, FileKind.ADD],
    ],
)
def test_a_file_that_is_added_or_deleted_twice_is_a_contradiction(kinds: list[FileKind]) -> None:
    other = (FileKind.ADD, (0, 0, "other"))
    with pytest.raises(CorruptDataError, match="snapshot 7 contradict each other"):
        living([other, *((kind, (0, 0, "a")) for kind in kinds)])

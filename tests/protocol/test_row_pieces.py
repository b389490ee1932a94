"""Rows of several sources come back piece by piece, whole, whether they fit into memory or not."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.protocol.upkeep.row_pieces import RowPieces

rows = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 9)), max_size=30)


@given(old=rows, new=rows, budget_bytes=st.sampled_from([0, 200, 1 << 20]))
def test_each_row_is_in_one_piece_with_all_of_its_key(
    old: list[tuple[str, int]], new: list[tuple[str, int]], budget_bytes: int
) -> None:
    found: Counter[tuple[str, str, str]] = Counter()
    keys: list[set[str]] = []
    with RowPieces(budget_bytes) as pieces:
        for source, given_rows in (("old", old), ("new", new)):
            for start in range(0, len(given_rows), 7):
                piece = given_rows[start : start + 7]
                frame = {"key": [key for key, _ in piece], "row": [f"{key}{number}" for key, number in piece]}
                pieces.add(source, pl.DataFrame(frame, schema={"key": pl.String, "row": pl.String}))
        for one in pieces.pieces():
            found.update((source, *row) for source, frame in one.items() for row in frame.select("key", "row").rows())
            keys.append({key for frame in one.values() for key in frame["key"]})
    assert found == Counter(
        (source, key, f"{key}{number}")
        for source, given_rows in (("old", old), ("new", new))
        for key, number in given_rows
    )
    assert sum(map(len, keys)) == len(set().union(*keys)), "a key is in one piece"


def test_files_are_deleted_at_the_end_also_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def fail() -> None:
        with RowPieces(0) as pieces:
            pieces.add("old", pl.DataFrame({"key": ["a"], "row": ["r"]}))
            assert pieces.is_spilled
            assert list(tmp_path.iterdir())
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(tmp_path.iterdir()) == []

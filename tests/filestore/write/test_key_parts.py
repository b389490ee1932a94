"""Rows gathered within a budget: parts by key, in the order of arrival, in memory or in temporary files."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import UnavailableError
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.write.key_parts import KeyParts

SCHEMA = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.int64())])
KEY = (DataField(id=0, name="k", type=DataType(root=TypeRoot.BIGINT)),)
Rows = list[tuple[int | None, int]]


def table_of(rows: Rows) -> pa.Table:
    return pa.table({"k": [key for key, _ in rows], "v": [value for _, value in rows]}, schema=SCHEMA)


@given(
    batches=st.lists(
        st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 5)), st.integers(0, 99)), max_size=6), max_size=8
    ),
    budget=st.sampled_from((0, 60, 1 << 20)),
)
def test_every_key_is_in_one_part_with_its_rows_in_their_order(batches: list[Rows], budget: int) -> None:
    expected = defaultdict(list)
    with KeyParts(KEY, budget_bytes=budget) as parts:
        for batch in batches:
            parts.add(table_of(batch))
            for key, value in batch:
                expected[key].append(value)
        found: dict[int | None, list[int]] = {}
        for part in parts.parts():
            of_part = defaultdict(list)
            for row in part.to_pylist():
                of_part[row["k"]].append(row["v"])
            assert not found.keys() & of_part.keys()
            found |= of_part
    assert found == expected


def test_what_fits_into_the_budget_is_not_spilled() -> None:
    rows = table_of([(number, number) for number in range(100)])
    with KeyParts(KEY, budget_bytes=rows.nbytes) as parts:
        parts.add(rows)
        assert not parts.is_spilled
        parts.add(rows)
        assert parts.is_spilled


def test_no_part_is_larger_than_the_budget() -> None:
    budget = 4_000
    with KeyParts(KEY, budget_bytes=budget) as parts:
        for start in range(0, 20_000, 1_000):
            parts.add(table_of([(number, number) for number in range(start, start + 1_000)]))
        found = [part.num_rows * 16 for part in parts.parts()]
    assert sum(found) == 20_000 * 16
    assert max(found) <= budget


def test_parts_are_as_few_as_the_budget_allows() -> None:
    rows = table_of([(number, number) for number in range(10_000)])
    with KeyParts(KEY, budget_bytes=rows.nbytes - 1) as parts:
        parts.add(rows)
        assert len(list(parts.parts())) == 2


def test_temporary_files_have_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with KeyParts(KEY, budget_bytes=0) as parts:
        parts.add(table_of([(1, 1), (2, 2)]))
        assert parts.is_spilled
        assert list(tmp_path.iterdir()) == []


def test_a_folder_that_takes_no_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with KeyParts(KEY, budget_bytes=0) as parts, pytest.raises(UnavailableError, match=r"missing.*let TMPDIR name"):
        parts.add(table_of([(1, 1)]))

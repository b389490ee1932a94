"""A stream from each way to name a state has its rows, then each change once, through restarts of the reader.

For each kind of table, before and after the other snapshots have expired: where nothing has the changes behind the
state any more it is refused by name, and reads the difference when it may.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.catalog import open_table
from lakelog.streams.phases import stream_head
from tests.support.streams.state_stream import check_is_refused, check_reads_once
from tests.support.tables.named_states import KINDS, WAYS, Filled

IN_GATE = {("keyed", "tag"), ("append", "branch.tag"), ("deletion vectors", "watermark"), ("evolved", "timestamp")}
CELLS = [
    pytest.param(kind, is_expired, way, marks=() if (kind, way) in IN_GATE else pytest.mark.full)
    for kind in KINDS
    for is_expired in (False, True)
    for way in WAYS
]
Tables = dict[tuple[str, bool], Filled]


@pytest.fixture(autouse=True)
def every_look_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_head, "HEAD_SECONDS", 0.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("states")


@pytest.fixture(scope="module")
def tables() -> Tables:
    """The tables that cells have asked for, by kind: what a cell writes is behind the state, for those after it too."""
    return {}


@pytest.mark.parametrize(("kind", "is_expired", "way"), CELLS)
def test_a_stream_has_the_rows_of_a_state_then_each_change_once(
    tables: Tables, folder: Path, kind: str, way: str, *, is_expired: bool
) -> None:
    if (kind, is_expired) not in tables:
        made = tables[kind, is_expired] = Filled(folder / f"{len(tables)}", KINDS[kind])
        if is_expired:
            made.expire()
    filled = tables[kind, is_expired]
    table = open_table(filled.table.path)
    if way == "snapshot" and is_expired:
        check_is_refused(filled, table)
    else:
        check_reads_once(filled, table, way, is_expired=is_expired)

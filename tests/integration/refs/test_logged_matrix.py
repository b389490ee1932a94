"""Each way to name a state of a table with a log: its rows in a batch, and in a stream with each change behind it once.

`tests/filestore/refs/test_matrix.py` and `tests/spark/source/test_stream_matrix.py` have the kinds without a log.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, open_table
from lakelog.common.errors import NotFoundError
from lakelog.filestore.table import FileStoreTable
from lakelog.streams.phases import stream_head
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import await_committed
from tests.support.streams.state_stream import check_is_refused, check_reads_once
from tests.support.tables.named_states import KEYED, SCHEMA, WAYS, Filled, rows_of

pytestmark = pytest.mark.integration


class Logged(Filled):
    """The table with a log; its branch has none."""

    def __init__(self, folder: Path, servers: str) -> None:
        self._catalog = Catalog(folder, bootstrap_servers=servers)
        super().__init__(folder, KEYED)

    def created(self, folder: Path) -> FileStoreTable:
        """The table, without a snapshot."""
        options = {"write-only": "true", "log.system": "kafka", **dict(self.kind.options)}
        made = self._catalog.create_table("db.t", schema=SCHEMA, primary_keys=self.kind.keys, options=options)
        self._writer = LocalWriter(made, "job")
        return made.store

    def put(self, table: FileStoreTable, number: int) -> None:
        """Commit the rows of a number, through the log where there is one."""
        rows = rows_of(self.written_as(number))
        if table.has_log:
            self._writer.write(number, rows, pa.array([0] * rows.num_rows, pa.int8()))
            await_committed(self._writer.table)
        else:
            table.write(rows)


@pytest.fixture(autouse=True)
def every_look_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_head, "HEAD_SECONDS", 0.0)


@pytest.fixture(scope="module", params=[False, True], ids=["living", "expired"])
def is_expired(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, bootstrap_servers: str, *, is_expired: bool) -> Logged:
    made = Logged(tmp_path_factory.mktemp("logged"), bootstrap_servers)
    if is_expired:
        made.expire()
    return made


@pytest.mark.parametrize("way", WAYS)
def test_a_state_is_shown(filled: Logged, way: str, *, is_expired: bool) -> None:
    which = filled.named(way)
    if way == "snapshot" and is_expired:
        with pytest.raises(NotFoundError, match="snapshot"):
            filled.shown(**which)
    elif way == "branch":
        assert filled.shown(**which) == filled.side_states[-1]
    else:
        assert filled.shown(**which) == filled.states[3]
    assert filled.shown() == filled.states[-1]


@pytest.mark.parametrize("way", [way if way == "tag" else pytest.param(way, marks=pytest.mark.full) for way in WAYS])
def test_a_stream_has_the_rows_of_a_state_then_each_change_once(filled: Logged, way: str, *, is_expired: bool) -> None:
    table = open_table(filled.table.path)
    if way == "snapshot" and is_expired:
        check_is_refused(filled, table)
    else:
        check_reads_once(filled, table, way, is_expired=is_expired, has_log=True)

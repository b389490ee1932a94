"""Tables of pypaimon whose files have some of the columns each, and BLOB columns, are read as pypaimon reads them."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any  # Any: rows of the table

import pytest

from lakelog.common.errors import CorruptDataError, OptionError, UnsupportedError
from lakelog.filestore.data.row_ids import is_blob
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.read.scan import plan_splits
from lakelog.filestore.read.split_rows import read_splits
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes
from tests.conformance.test_pypaimon import run_job
from tests.support.jobs import pypaimon_job

IO = LocalFileIO(sync_data=False)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory, pypaimon_python: Path) -> Path:
    """The tables `plain` and `marked`, which has deletion vectors."""
    folder = tmp_path_factory.mktemp("evolved")
    run_job(pypaimon_python, "evolve", str(folder), "db.plain", "0")
    run_job(pypaimon_python, "evolve", str(folder), "db.marked", "1")
    return folder


def opened(warehouse: Path, name: str) -> FileStoreTable:
    return FileStoreTable.open(warehouse / "db.db" / name, IO)


@pytest.mark.parametrize(("name", "count"), [("plain", 80), ("marked", 75)])
def test_columns_of_many_files_are_joined_by_row(warehouse: Path, pypaimon_python: Path, name: str, count: int) -> None:
    table = opened(warehouse, name)
    rows = table.to_arrow()
    assert rows.num_rows == count
    assert pypaimon_job.rows_shown(rows) == run_job(pypaimon_python, "rows", str(warehouse), f"db.{name}")
    for columns in (["id"], ["data"], ["b", "day"], ["a", "id"], []):
        part = table.to_arrow(columns=columns)
        assert part.num_rows == count
        for column in columns:
            assert sorted(part[column].to_pylist(), key=repr) == sorted(rows[column].to_pylist(), key=repr)


@pytest.mark.parametrize("where", ["b < -3", "id between 30 and 50 and day = 1", "a is null", "b = 16.5"])
def test_filters_see_the_newest_value_of_each_column(warehouse: Path, where: str) -> None:
    """Bounds of a file tell nothing of columns that newer files have."""
    table = opened(warehouse, "plain")
    tests: dict[str, Callable[[dict[str, Any]], bool]] = {
        "b < -3": lambda row: row["b"] < -3,
        "id between 30 and 50 and day = 1": lambda row: 30 <= row["id"] <= 50 and row["day"] == 1,
        "a is null": lambda row: row["a"] is None,
        "b = 16.5": lambda row: row["b"] == 16.5,
    }
    wanted = [row for row in table.to_arrow().to_pylist() if tests[where](row)]
    assert wanted
    found = table.to_arrow(where=where).to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == sorted(wanted, key=lambda row: row["id"])


def test_small_pieces_come_to_the_same_rows(warehouse: Path) -> None:
    table = opened(warehouse, "marked")
    options = {**table.schema.options, "read.memory-budget": "2 kb"}
    small = replace(table, schema=replace(table.schema, options=options))
    assert pypaimon_job.rows_shown(small.to_arrow()) == pypaimon_job.rows_shown(opened(warehouse, "marked").to_arrow())


def test_every_snapshot_is_read(warehouse: Path, tmp_path: Path) -> None:
    table = opened(warehouse, "marked")
    counts = [table.to_arrow(snapshot_id=number).num_rows for number in table.snapshots.ids()]
    assert counts == [40, 80, 80, 80, 80, 75]
    assert None not in table.to_arrow(snapshot_id=2)["a"].to_pylist()


def test_such_a_table_is_neither_written_nor_followed(warehouse: Path) -> None:
    table = opened(warehouse, "plain")
    with pytest.raises(UnsupportedError, match=r"option data-evolution\.enabled=true"):
        table.write(table.to_arrow())
    with pytest.raises(UnsupportedError, match=r"option data-evolution\.enabled=true"):
        list(changes(table))


def test_a_blob_with_references_to_its_values_is_an_error_at_its_column(tmp_path: Path, pypaimon_python: Path) -> None:
    program = (
        "import pypaimon, sys, pyarrow as pa\n"
        "catalog = pypaimon.CatalogFactory.create({'warehouse': sys.argv[1]})\n"
        "catalog.create_database('db', True)\n"
        "rows = pa.table({'id': [1, 2], 'data': pa.array([None, None], pa.large_binary())})\n"
        "options = {'row-tracking.enabled': 'true', 'data-evolution.enabled': 'true'}\n"
        "options['blob-descriptor-field'] = 'data'\n"
        "schema = pypaimon.Schema.from_pyarrow_schema(rows.schema, options=options)\n"
        "catalog.create_table('db.t', schema, False)\n"
        "builder = catalog.get_table('db.t').new_batch_write_builder()\n"
        "write, commit = builder.new_write(), builder.new_commit()\n"
        "write.write_arrow(rows)\n"
        "commit.commit(write.prepare_commit())\n"
    )
    subprocess.run([pypaimon_python, "-c", program, str(tmp_path)], check=True, timeout=120)
    table = FileStoreTable.open(tmp_path / "db.db" / "t", IO)
    assert sorted(table.to_arrow(columns=["id"])["id"].to_pylist()) == [1, 2]
    with pytest.raises(UnsupportedError, match=r"column 'data' of table db\.t holds references to its values"):
        table.to_arrow()


def test_a_blob_file_that_is_damaged_is_named(warehouse: Path, tmp_path: Path) -> None:
    shutil.copytree(warehouse / "db.db" / "plain", tmp_path / "t")
    table = FileStoreTable.open(tmp_path / "t", IO)
    expected = pypaimon_job.rows_shown(table.to_arrow())
    path = max((tmp_path / "t").rglob("*.blob"), key=lambda found: found.stat().st_size)
    data = path.read_bytes()
    seen: Counter[str] = Counter()
    for place in range(0, len(data), max(1, len(data) // 60)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x20]) + data[place + 1 :])
        try:
            seen["right" if pypaimon_job.rows_shown(table.to_arrow()) == expected else "wrong"] += 1
        except CorruptDataError as error:
            seen["told" if path.name in str(error) else "told of another"] += 1
    assert seen.keys() == {"told"}
    path.write_bytes(data[:-7])
    with pytest.raises(CorruptDataError, match=path.name):
        table.to_arrow()
    assert table.to_arrow(columns=["id"]).num_rows == 80


def test_a_blob_file_that_is_not_named_is_missed(warehouse: Path) -> None:
    table = opened(warehouse, "plain")
    splits = plan_splits(table, table.snapshots.latest()).splits
    lost = [
        replace(split, files=tuple(file for file in split.files if not (is_blob(file) and file.row_count == 20)))
        for split in splits
    ]
    with pytest.raises(CorruptDataError, match=r"have the rows .* of column 'data', its other columns those to"):
        list(read_splits(table, lost))
    assert sum(batch.num_rows for batch in read_splits(table, lost, columns=["id"])) == 80


def test_claims_of_a_manifest_take_no_memory(warehouse: Path) -> None:
    """Rows are counted by the files themselves."""
    table = opened(warehouse, "plain")
    splits = plan_splits(table, table.snapshots.latest()).splits
    huge = [
        replace(split, files=tuple(file if is_blob(file) else replace(file, row_count=2**40) for file in split.files))
        for split in splits
    ]
    for columns in (["data"], ["b"], ["id", "data"]):
        with pytest.raises(CorruptDataError):
            list(read_splits(table, huge, columns=columns))
    wrong = replace(
        table, schema=replace(table.schema, options={**table.schema.options, "data-evolution.enabled": "?"})
    )
    with pytest.raises(OptionError, match=r"option 'data-evolution\.enabled' has the value '\?'"):
        wrong.to_arrow()

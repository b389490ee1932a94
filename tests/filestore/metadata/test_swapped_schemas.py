"""A schema file of another table is an error, wherever it is put: it would show rows that were never written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.alter.schema_changes import AddColumn, SetOption
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.snapshots.snapshot import SCHEMA_DIGEST_KEY
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.schema.schema_manager import SchemaManager
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes
from tests.support.tables.altered import altered
from tests.support.tables.paimon_tables import expected, unpack

IO = LocalFileIO(sync_data=False)
ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "v": [1.5, 2.5]})


def make(folder: Path, name: str, **options: str) -> FileStoreTable:
    given = {key.replace("_", "-"): value for key, value in options.items()}
    return FileStoreTable.create(
        folder / "db.db" / name, build_schema(ROWS.schema, primary_keys=["id"], options=given), IO
    )


def opened(table: FileStoreTable) -> FileStoreTable:
    return FileStoreTable.open(table.path, IO)


def swap(table: FileStoreTable, other: FileStoreTable, number: int = 0) -> None:
    shutil.copy(Path(other.path) / "schema" / f"schema-{number}", Path(table.path) / "schema")


def test_the_schema_of_another_table_reads_and_writes_nothing(tmp_path: Path) -> None:
    table, other = make(tmp_path, "t"), make(tmp_path, "other", merge_engine="first-row")
    table.write(ROWS)
    swap(table, other)
    for use in (
        lambda found: found.to_arrow(),
        lambda found: found.to_arrow(snapshot_id=1),
        lambda found: list(changes(found)),
        lambda found: found.write(ROWS),
        lambda found: found.compact(full=True),
    ):
        with pytest.raises(CorruptDataError, match=r"schema-0 is damaged: it is not the schema of this table"):
            use(opened(table))
    shutil.rmtree(Path(other.path))
    assert opened(table).snapshots.latest_id() == 1


def test_a_newer_schema_of_another_table_is_found_by_the_one_before(tmp_path: Path) -> None:
    """No snapshot names it yet."""
    table, other = make(tmp_path, "t"), make(tmp_path, "other", merge_engine="first-row")
    table.write(ROWS)
    for one in (table, other):
        altered(one, SetOption("target-file-size", "64 mb"))
    assert opened(table).to_arrow().num_rows == 2
    swap(table, other, 1)
    with pytest.raises(CorruptDataError, match=r"schema-0 is damaged.*, and schema 1 was made from"):
        opened(table).to_arrow()


def test_an_older_schema_of_another_table_is_found_by_the_one_after(tmp_path: Path) -> None:
    """Files of the older schema are read by it."""
    table = make(tmp_path, "t")
    table.write(ROWS)
    table = altered(table, AddColumn("w", "INT"))
    table.write(ROWS.append_column("w", pa.array([1, 1], pa.int32())))
    other = FileStoreTable.create(
        tmp_path / "db.db" / "other", build_schema(ROWS.select(["v", "id"]).schema, primary_keys=["id"]), IO
    )
    swap(table, other)
    with pytest.raises(CorruptDataError, match=r"schema-0 is damaged: it is not the schema of this table"):
        opened(table).to_arrow()


def test_schemas_that_others_made_are_vouched_for_once_lakelog_commits(tmp_path: Path) -> None:
    path = unpack("pk_basic", tmp_path) / "db.db" / "pk_basic"
    table = FileStoreTable.open(path, IO)
    assert table.to_arrow().num_rows == len(expected("pk_basic", "pk_basic", "latest"))
    assert SCHEMA_DIGEST_KEY not in table.snapshots.get(4).properties
    table.compact(full=True)
    newest = table.snapshots.get(5)
    assert newest.properties[SCHEMA_DIGEST_KEY] == SchemaManager(IO, table.paths).digest_of(0)
    assert opened(table).to_arrow().num_rows == len(expected("pk_basic", "pk_basic", "latest"))


def test_a_schema_is_read_whatever_engine_wrote_the_one_before(tmp_path: Path) -> None:
    table = make(tmp_path, "t")
    table.write(ROWS)
    path = Path(table.path) / "schema" / "schema-1"
    schema = TableSchema.from_json((path.parent / "schema-0").read_bytes(), path=str(path))
    text = schema.to_json().replace('"id": 0,\n  "fields"', '"id": 1,\n  "fields"', 1)
    path.write_text("\n".join(line for line in text.splitlines() if "lakelogDigest" not in line))
    assert opened(table).to_arrow().num_rows == 2
    again = altered(opened(table), AddColumn("w", "INT"))
    assert again.schema.id == 2
    assert opened(table).to_arrow().num_rows == 2

"""Every option of Paimon is honoured, harmless or refused; none that matters is passed over in silence."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import UnsupportedError
from lakelog.filestore.alter.schema_changes import RemoveOption, SetOption
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.options import FILESTORE_OPTIONS
from lakelog.filestore.options.foreign import HONOURED, REFUSED_OPTION_SUFFIXES, REFUSED_OPTIONS, OptionUse
from lakelog.filestore.options.harmless import HARMLESS
from lakelog.filestore.options.merging import IGNORE_DELETE
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.schema.schema_manager import SchemaManager
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes, expire_partitions
from lakelog.logstore.options import LOGSTORE_OPTIONS
from tests.support.tables.altered import altered

KEYS = Path(__file__).parent / "paimon_option_keys.txt"
ROWS = pa.table({"day": ["2026-01-01", "2026-01-02"], "id": pa.array([1, 2], pa.int64()), "v": [1.5, 2.5]})
DECLARED = {option.key for option in (*FILESTORE_OPTIONS, *LOGSTORE_OPTIONS)}
HARMLESS_KEYS = [key for keys in HARMLESS.values() for key in keys]
BAD_VALUES = {"type": "object-table", "branch": "other", "scan.mode": "from-snapshot", "manifest.format": "orc"}
BAD_VALUES |= {"write.sequence-number-init-mode": "snapshot", "partition.expiration-strategy": "update-time"}


def known_to_paimon() -> set[str]:
    """The keys of all options that Paimon 0.1 to 2.1 declares for tables, Flink, Spark, Hive and formats."""
    return {line for line in KEYS.read_text("ascii").splitlines() if not line.startswith("#")}


def make(folder: Path, primary_keys: list[str] | None = None) -> FileStoreTable:
    keys = ["day", "id"] if primary_keys is None else primary_keys
    return FileStoreTable.create(
        folder / "db.db" / "t",
        build_schema(ROWS.schema, primary_keys=keys, partition_keys=["day"]),
        LocalFileIO(sync_data=False),
    )


def with_option(table: FileStoreTable, key: str, value: str) -> FileStoreTable:
    """The table once another engine has set an option."""
    changed = replace(table.schema, id=table.schema.id + 1, options={**table.schema.options, key: value})
    SchemaManager(table.file_io, table.paths).create(changed)
    return FileStoreTable.open(table.path, table.file_io)


def use(table: FileStoreTable, what: OptionUse) -> None:
    match what:
        case OptionUse.READ:
            table.to_arrow()
        case OptionUse.FOLLOW:
            list(changes(table))
        case OptionUse.WRITE:
            table.write(ROWS)
        case OptionUse.EXPIRE_PARTITIONS:
            expire_partitions(with_option(table, "partition.expiration-time", "1000000 d"))


def test_every_option_of_paimon_is_honoured_harmless_or_refused() -> None:
    assert known_to_paimon() - DECLARED - HONOURED.keys() - REFUSED_OPTIONS.keys() - set(HARMLESS_KEYS) == set()


def test_no_option_is_two_of_these_or_unknown_to_paimon() -> None:
    assert [key for key, count in Counter(HARMLESS_KEYS).items() if count > 1] == []
    assert set(HARMLESS_KEYS) & (DECLARED | HONOURED.keys() | REFUSED_OPTIONS.keys()) == set()
    assert HONOURED.keys() & (DECLARED | REFUSED_OPTIONS.keys()) == set()
    assert (set(HARMLESS_KEYS) | HONOURED.keys() | REFUSED_OPTIONS.keys()) - known_to_paimon() == set()


@pytest.mark.parametrize("key", sorted(REFUSED_OPTIONS))
def test_an_option_that_changes_a_use_is_refused_by_its_name(tmp_path: Path, key: str) -> None:
    table = make(tmp_path)
    table.write(ROWS)
    table = with_option(table, key, BAD_VALUES.get(key, "true"))
    for what in REFUSED_OPTIONS[key].uses:
        with pytest.raises(UnsupportedError, match=re.escape(f"option {key}=")):
            use(table, what)


@pytest.mark.parametrize("key", sorted(key for key, refusal in REFUSED_OPTIONS.items() if refusal.harmless))
def test_a_value_that_changes_nothing_is_taken(tmp_path: Path, key: str) -> None:
    table = make(tmp_path)
    table.write(ROWS)
    table = with_option(table, key, next(iter(REFUSED_OPTIONS[key].harmless)).upper())
    for what in REFUSED_OPTIONS[key].uses:
        use(table, what)
    assert table.to_arrow().num_rows == 2


def test_an_option_of_a_column_is_refused_by_its_suffix(tmp_path: Path) -> None:
    table = make(tmp_path)
    for suffix, refusal in REFUSED_OPTION_SUFFIXES.items():
        other = with_option(table, f"fields.v.{suffix}", "other")
        with pytest.raises(UnsupportedError, match=re.escape(f"option fields.v.{suffix}=other")):
            use(other, OptionUse.READ)
        table = with_option(other, f"fields.v.{suffix}", next(iter(refusal.harmless)))
        use(table, OptionUse.READ)


def test_a_table_can_be_rid_of_an_option_that_is_refused(tmp_path: Path) -> None:
    table = with_option(make(tmp_path), "scan.bucket", "0")
    table = altered(table, RemoveOption(key="scan.bucket"))
    table.write(ROWS)
    assert table.to_arrow().num_rows == 2


def test_no_table_is_made_or_altered_with_an_option_that_its_reads_refuse(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"option scan\.snapshot-id=1 chooses which rows"):
        build_schema(ROWS.schema, options={"scan.snapshot-id": "1"})
    with pytest.raises(UnsupportedError, match=r"option scan\.snapshot-id=1 chooses which rows"):
        altered(make(tmp_path), SetOption(key="scan.snapshot-id", value="1"))


@pytest.mark.parametrize("key", IGNORE_DELETE.older_keys)
def test_deletes_are_ignored_by_the_older_keys_too(tmp_path: Path, key: str) -> None:
    table = make(tmp_path)
    table.write(ROWS)
    table.write(ROWS, kinds=pa.array([3, 3], pa.int8()))
    assert table.to_arrow().num_rows == 0
    assert with_option(table, key, "true").to_arrow().num_rows == 2


def test_unknown_options_are_kept_and_ignored(tmp_path: Path) -> None:
    table = with_option(make(tmp_path), "scan.something-new", "true")
    table.write(ROWS)
    assert table.to_arrow().num_rows == 2
    schema: TableSchema = FileStoreTable.open(table.path).schema
    assert schema.options["scan.something-new"] == "true"

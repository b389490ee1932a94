"""Values of other engines: every spelling of Paimon works, and one that is not understood stops only what needs it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import InvalidRequestError, LakelogError, OptionError
from lakelog.filestore.alter.schema_changes import AddColumn, SetOption
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.options import FILESTORE_OPTIONS
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes, expire_snapshots
from lakelog.filestore.verbs.new_tables import check_new_table
from tests.filestore.options.test_foreign_options import ROWS, make, with_option
from tests.support.tables.altered import altered

OTHER = "~other~"
FREE = ("text", "a column name", "column names with commas", "a timestamp")  # each text is understood
# Which rows a read gives, and where their files are, depends on these alone; other reads than of rows on more.
OF_KEYS = {"deletion-vectors.enabled", "deletion-vectors.merge-on-read", "ignore-delete", "merge-engine"}
DECIDES_READS = OF_KEYS | {"partition.legacy-name", "scan.fallback-branch", "scan.primary-branch", "scan.mode"}
DECIDES_READS |= {"scan.snapshot-id", "scan.timestamp-millis"}


def stored(folder: Path, *, has_key: bool) -> FileStoreTable:
    keys = ["day", "id"] if has_key else []
    schema = build_schema(ROWS.schema, primary_keys=keys, partition_keys=["day"])
    table = FileStoreTable.create(folder / "db.db" / "t", schema, LocalFileIO(sync_data=False))
    table.write(ROWS)
    return table


def rows_of(table: FileStoreTable) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = table.to_arrow().sort_by("id").to_pylist()
    return rows


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("source.split.target-size", "128m"),
        ("source.split.open-file-cost", "4 mebibytes"),
        ("target-file-size", "256 m"),
        ("manifest.target-file-size", "8m"),
        ("manifest.full-compaction-threshold-size", "1 Gibibytes"),
        ("file.block-size", "64 M"),
        ("commit.timeout", "5 minutes"),
        ("consumer.expiration-time", "1 day"),
        ("tag.default-time-retained", "2 hours"),
        ("compaction.optimization-interval", "1 hour"),
        ("compaction.total-size-threshold", "1g"),
        ("snapshot.time-retained", "3 milliseconds"),
        ("changelog.time-retained", "1 DAY"),
        ("merge-engine", "DEDUPLICATE"),
        ("changelog-producer", "NONE"),
        ("file.format", "PARQUET"),
        ("file.format.per.level", "0:AVRO"),
        ("bucket-function.type", "Default"),
        ("scan.mode", "Latest-Full"),
    ],
)
def test_a_table_with_a_spelling_of_flink_is_read_written_compacted_and_expired(
    tmp_path: Path, key: str, value: str
) -> None:
    table = with_option(stored(tmp_path, has_key=True), key, value)
    table.write(ROWS.set_column(2, "v", pa.array([5.0, 6.0])))
    table.compact()
    expire_snapshots(table)
    assert rows_of(table) == [row | {"v": v} for row, v in zip(ROWS.to_pylist(), (5.0, 6.0), strict=True)]


@pytest.mark.parametrize("has_key", [True, False])
def test_a_value_that_is_not_understood_stops_no_read_whose_rows_do_not_depend_on_it(
    tmp_path: Path, *, has_key: bool
) -> None:
    stopped = {}
    table = stored(tmp_path, has_key=has_key)
    plain = table.schema
    for option in FILESTORE_OPTIONS:
        if option.key == "write-mode" or option.kind in FREE:  # `write-mode` is an option of FLIP-188 alone
            continue
        opened = with_option(replace(table, schema=replace(plain, id=table.schema.id)), option.key, OTHER)
        try:
            assert rows_of(opened) == ROWS.to_pylist()
        except LakelogError as error:
            stopped[option.key] = str(error)
        table = opened
    assert stopped.keys() - DECIDES_READS == set()
    assert has_key or not stopped.keys() & OF_KEYS
    assert {key: text for key, text in stopped.items() if key not in text} == {}


@pytest.mark.parametrize("key", ["target-file-size", "file.format", "commit.timeout", "manifest.merge-min-count"])
def test_a_write_that_depends_on_such_a_value_is_refused_by_its_name(tmp_path: Path, key: str) -> None:
    table = with_option(stored(tmp_path, has_key=True), key, OTHER)
    with pytest.raises(OptionError, match=f"option '{key}' has the value '{OTHER}'"):
        table.write(ROWS)


@pytest.mark.parametrize(
    ("key", "value"),
    [("merge-engine", "aggregation"), ("sequence.field", "v"), ("ignore-delete", "true"), ("merge-engine", OTHER)],
)
def test_options_of_keys_have_no_effect_on_a_table_without_one(tmp_path: Path, key: str, value: str) -> None:
    table = with_option(stored(tmp_path, has_key=False), key, value)
    table.write(ROWS)
    assert table.to_arrow().num_rows == 4
    assert sum(part.num_rows for part in changes(table)) == 4
    table.compact()
    assert altered(table, AddColumn(column="more", type="INT")).to_arrow().num_rows == 4


def test_options_of_keys_are_refused_where_a_user_gives_them_to_a_table_without_one() -> None:
    for key, value in (("merge-engine", "aggregation"), ("sequence.field", "v"), ("ignore-delete", "true")):
        with pytest.raises(InvalidRequestError, match=f"need a primary key, found {key}"):
            check_new_table(build_schema(ROWS.schema, options={key: value}))


def test_an_option_that_never_changes_takes_another_spelling_of_its_value(tmp_path: Path) -> None:
    table = with_option(make(tmp_path), "merge-engine", "DEDUPLICATE")
    assert altered(table, SetOption(key="merge-engine", value="deduplicate")).schema.options["merge-engine"] == (
        "deduplicate"
    )
    with pytest.raises(InvalidRequestError, match="cannot be changed from deduplicate to first-row"):
        altered(table, SetOption(key="merge-engine", value="first-row"))

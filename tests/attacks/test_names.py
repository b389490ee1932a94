"""Names in a table's metadata lead nowhere else: what is outside of its folder is neither read nor changed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.catalog import open_table
from lakelog.cli.main import main
from lakelog.common.errors import CorruptDataError, InvalidRequestError, LakelogError, NotFoundError
from lakelog.common.file_name_columns import check_column
from lakelog.common.file_names import check_file_name
from lakelog.common.types import parse_type
from lakelog.filestore.encoding.binary_row import serialize_row
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.paths import TablePaths, partition_path
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import reset_consumer
from lakelog.protocol.state.header import CommitHeader
from tests.support.attacks.hostile_tables import Record, World, make_world, rewrite
from tests.support.files.data_files import plain_file
from tests.support.tables.small_tables import SCHEMA, altered_by_others, make_table, rows_of

UP = "../../../../outside/"


def named(world: World, form: str, name: str) -> str:
    """A hostile name of a file that is there outside."""
    return {"up": f"{UP}{name}", "absolute": str(world.outside / name), "nul": f"data\0{name}", "dots": ".."}[form]


def in_file(key: str, value: Callable[[World], object]) -> Callable[[World], Callable[[Record], object]]:
    def attack(world: World) -> Callable[[Record], object]:
        wanted = value(world)

        def change(record: Record) -> None:
            if record["_FILE"]["_LEVEL"] == 0:
                record["_FILE"][key] = wanted

        return change

    return attack


@pytest.mark.parametrize("form", ["up", "absolute", "nul", "dots"])
@pytest.mark.parametrize("kind", ["data", "extra"])
def test_names_of_data_files_lead_nowhere_else(tmp_path: Path, kind: str, form: str) -> None:
    world = make_world(tmp_path, has_key=True)
    name = named(world, form, "data.parquet")
    key, value = ("_FILE_NAME", name) if kind == "data" else ("_EXTRA_FILES", [name])
    rewrite(world.table, entry=in_file(key, lambda _: value)(world))
    errors = world.run()
    assert {"changes", "expire", "orphans", "compact"} <= errors.keys()
    assert all(isinstance(error, CorruptDataError) for error in errors.values()), errors


@pytest.mark.parametrize("form", ["up", "absolute", "nul", "dots"])
def test_names_in_manifest_lists_lead_nowhere_else(tmp_path: Path, form: str) -> None:
    world = make_world(tmp_path, has_key=True)
    name = named(world, form, "manifest-0")
    rewrite(world.table, meta=lambda record: record.update(_FILE_NAME=name))
    assert {"read", "changes", "write", "expire", "orphans", "compact"} <= world.run().keys()


@pytest.mark.parametrize("form", ["up", "absolute", "nul", "dots"])
def test_names_of_index_files_lead_nowhere_else(tmp_path: Path, form: str) -> None:
    world = make_world(tmp_path, has_key=False)
    name = named(world, form, "index-0")
    rewrite(world.table, index=lambda record: record.update(_FILE_NAME=name))
    assert {"read", "write", "expire", "orphans"} <= world.run().keys()


@pytest.mark.parametrize("form", ["up", "absolute", "nul", "dots"])
@pytest.mark.parametrize(
    ("key", "file"),
    [
        ("baseManifestList", "manifest-0"),
        ("deltaManifestList", "manifest-0"),
        ("changelogManifestList", "manifest-0"),
        ("indexManifest", "manifest-0"),
        ("statistics", "stat-0"),
    ],
)
def test_names_in_snapshots_lead_nowhere_else(tmp_path: Path, key: str, file: str, form: str) -> None:
    world = make_world(tmp_path, has_key=False)

    def change(fields: Record) -> None:
        if fields["id"] < 4:
            fields[key] = named(world, form, file)

    rewrite(world.table, snapshot=change)
    errors = world.run()
    assert {"expire", "orphans"} <= errors.keys()
    assert all(isinstance(error, CorruptDataError) for error in errors.values()), errors


def test_ids_that_are_strings_lead_nowhere_else(tmp_path: Path) -> None:
    world = make_world(tmp_path, has_key=True)
    rewrite(world.table, snapshot=lambda fields: fields.update(schemaId=f"0/{UP}note"))
    world.run()


@pytest.mark.parametrize("folder", ["..", "../..", "a/../../../../..", "x/./y", "a\0b"])
def test_a_folder_of_data_files_is_below_the_table(tmp_path: Path, folder: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"data-file\.path-directory"):
        build_schema(SCHEMA, primary_keys=["id"], options={"data-file.path-directory": folder})
    world = make_world(tmp_path, has_key=True)
    newest = Path(world.table) / "schema" / "schema-1"
    schema = FileStoreTable.open(world.table).schema
    newest.write_text(altered_by_others(schema, **{"data-file.path-directory": folder}))
    (world.outside.parent / "bucket-0").mkdir()
    (world.outside.parent / "bucket-0" / "data-x-0.parquet").write_bytes(b"somebody else's")
    assert {"read", "write", "compact", "orphans"} <= world.run().keys()
    assert (world.outside.parent / "bucket-0" / "data-x-0.parquet").exists()


@pytest.mark.parametrize("key", ["data-file.prefix", "changelog-file.prefix"])
def test_the_start_of_names_is_no_path(tmp_path: Path, key: str) -> None:
    with pytest.raises(InvalidRequestError, match=key):
        build_schema(SCHEMA, primary_keys=["id"], options={key: "../../x-"})
    table = make_table(tmp_path, options={"changelog-producer": "input"})
    Path(table.paths.schema(1)).write_text(
        altered_by_others(table.schema, **{key: "../../x-"}).replace('"id": 0,', '"id": 1,', 1)
    )
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidRequestError, match=key):
        FileStoreTable.open(table.path).write(rows_of(0))
    assert list(tmp_path.rglob("x-*")) == []
    assert before[0].exists()


@pytest.mark.parametrize("name", ["x/../../evil", "../x", "", "a\0b", "x\\y", "a\nb", "n" * 300])
def test_users_names_of_tags_branches_and_consumers_name_files_alone(tmp_path: Path, name: str) -> None:
    table = make_table(tmp_path)
    table.write(rows_of(0))
    (tmp_path / "evil").write_text(table.snapshots.get(1).to_json())
    is_name = name in {"x\\y", "a\nb"}  # of a file that another program may have put there
    told = r"has no tag '(x\\\\y|a\\nb)'[^\n]*\Z" if is_name else "is not usable"
    with pytest.raises(NotFoundError if is_name else InvalidRequestError, match=told):
        table.to_arrow(tag=name)
    with pytest.raises(InvalidRequestError, match="is not usable"):
        open_table(table.path, branch=name)
    with pytest.raises(InvalidRequestError, match="is not usable"):
        reset_consumer(table, name, 1)


def test_the_command_line_reads_no_tag_from_outside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = make_table(tmp_path)
    table.write(rows_of(0))
    Path(f"{table.path}/tag/tag-x").mkdir(parents=True)
    (tmp_path / "evil").write_text(table.snapshots.get(1).to_json())
    with pytest.raises(SystemExit):
        main(("table", "cat", table.path, "--tag", "x/../../../evil"))
    seen = capsys.readouterr()
    assert "tag 'x/../../../evil' is not usable" in seen.err
    assert seen.out == ""


DAYS = pa.schema([pa.field("id", pa.int64()), pa.field("day/..", pa.string())])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(value=TEXTS | st.sampled_from(["..", "../..", "a/../../b", "\0"]))
def test_partitions_are_folders_of_the_table(value: str) -> None:
    schema = build_schema(DAYS, partition_keys=["day/.."], options={"bucket": "-1"})
    folder, slash, rest = partition_path(schema, serialize_row([parse_type("STRING")], [value])).partition("/")
    assert (slash, rest) == ("/", "")
    assert check_file_name(folder[:100]).startswith("day%2F..=")


@given(
    names=st.lists(st.text(max_size=6) | st.sampled_from([".", "..", "a/b", "\0", "x" * 255, "x" * 256]), min_size=1),
    times=st.sampled_from([1, 200]),
)
def test_columns_of_names_are_judged_as_single_names_are(names: list[str], times: int) -> None:
    def is_fine(name: str) -> bool:
        try:
            check_file_name(name)
        except ValueError:
            return False
        return True

    try:
        check_column(pl.Series("names", names * times, pl.String))
        is_taken = True
    except ValueError:
        is_taken = False
    assert is_taken == all(map(is_fine, names))


def header_with(**changes: object) -> bytes:
    meta = plain_file("data-1-0.parquet").to_json() | changes
    row = base64.b64encode(bytes(12)).decode()
    head = {
        "v": 1,
        "table": "t",
        "user": "u",
        "id": 1,
        "digest": None,
        "schema": 0,
        "base": 0,
        "records": 1,
        "bytes": 9,
    }
    return json.dumps(head | {"files": [[row, meta]], "changelog": [], "lineage": {}}).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"n": "../../../../victim"},
        {"n": "/etc/passwd"},
        {"n": "a\0b"},
        {"n": ""},
        {"n": 7},
        {"x": ["../../../../victim"]},
        {"p": "file:/etc/passwd"},
    ],
)
def test_a_header_in_the_log_names_files_of_the_table_alone(changes: dict[str, object]) -> None:
    assert CommitHeader.from_bytes(header_with(), where="offset 1").files
    with pytest.raises(CorruptDataError, match="offset 1"):
        CommitHeader.from_bytes(header_with(**changes), where="offset 1")


def test_paths_of_odd_branches_are_refused() -> None:
    with pytest.raises(LakelogError, match="branch"):
        TablePaths("/lake/db.db/t", "../../x")

"""What a user writes for a place is understood or refused: no folder gets an odd name, and no wrong one looks empty."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.catalog import Catalog, open_table
from lakelog.cli.main import main
from lakelog.common.errors import InvalidRequestError, LakelogError, NotFoundError, OptionError
from lakelog.filestore.io.location import Location
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import rescale
from tests.support.tables.small_tables import SCHEMA as SMALL
from tests.support.tables.small_tables import altered_by_others, make_table, rows_of

SCHEMA = pa.schema({"id": pa.int64()})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, beside a home."""
    (tmp_path / "here").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "here"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("~/lake", "{home}/lake"),
        ("~", "{home}"),
        ("file:{home}/lake", "{home}/lake"),
        ("file://{home}/lake", "{home}/lake"),
        ("file://localhost{home}/lake", "{home}/lake"),
        ("FILE:{home}/lake", "{home}/lake"),
        ("lake", "{here}/lake"),
        ("./~", "{here}/~"),
    ],
)
def test_forms_of_local_folders_are_understood(here: Path, written: str, meant: str) -> None:
    places = {"home": str(here.parent / "home"), "here": str(here)}
    given, expected = written.format(**places), meant.format(**places)
    made = Catalog(given).create_table("db.t", schema=SCHEMA)
    assert made.path == f"{expected}/db.db/t"
    assert Path(made.path, "schema", "schema-0").exists()
    assert open_table(f"{given}/db.db/t").path == made.path
    assert open_table("db.t", given).path == made.path
    assert FileStoreTable.create(f"{given}/plain", build_schema(SMALL)).path == f"{expected}/plain"
    allowed = {"~"} if written == "./~" else set()
    assert {name for name in os.listdir(here) if name[0] == "~" or ":" in name} == allowed  # noqa: PTH208


@pytest.mark.parametrize(
    "written",
    [
        "~nobody-of-this-name/lake",
        "file:lake",
        "file://other/lake",
        "file:",
        "s3:/bucket/lake",
        "hdfs:/lake",
        "a\0b",
        "a\nb",
    ],
)
def test_other_forms_are_refused_and_make_no_folder(here: Path, written: str) -> None:
    for act in (
        lambda: Catalog(written).create_table("db.t", schema=SCHEMA),
        lambda: open_table(written),
        lambda: open_table("db.t", written),
        lambda: FileStoreTable.create(written, build_schema(SMALL)),
    ):
        with pytest.raises(InvalidRequestError):
            act()
    assert list(here.iterdir()) == []


@given(path=st.text())
def test_any_text_is_a_place_or_an_error_of_ours(path: str) -> None:
    try:
        found = Location.of(path)
    except LakelogError:
        return
    assert "\0" not in found.path
    assert found.path.startswith("/") or "://" in found.path


def test_the_brokers_folder_is_named_as_tables_are(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("~/lake", f"file:{here.parent}/home/lake"):
        with pytest.raises(SystemExit):
            main(("broker", "status", folder))
        assert capsys.readouterr().out == f"no broker runs in {here.parent}/home/lake\n"
    with pytest.raises(SystemExit):
        main(("broker", "status", "s3:/x"))
    assert "two slashes" in capsys.readouterr().err
    assert list(here.iterdir()) == []


def test_a_wrong_warehouse_is_no_empty_one(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Catalog("lake").create_table("db.t", schema=SCHEMA)
    (here / "file").write_text("")
    for wrong, text in (
        ("lak", "the warehouse .*/lak does not exist"),
        ("file", "the warehouse .*/file does not exist"),
        (".", "is not a warehouse: it holds file, lake and no database"),
        ("lake/db.db", "is not a warehouse: it holds t and no database"),
        (made.path, "is not a warehouse: it holds schema and no database"),
    ):
        catalog = Catalog(wrong)
        for ask in (
            catalog.list_databases,
            lambda c=catalog: c.list_tables("db"),
            lambda c=catalog: c.load_table("db.t"),
        ):
            with pytest.raises(NotFoundError, match=text):
                ask()
        with pytest.raises(SystemExit):
            main(("table", "list", "-w", wrong))
        seen = capsys.readouterr()
        assert seen.out == ""
        assert "warehouse" in seen.err
    (here / "new").mkdir()
    assert Catalog("new").list_databases() == []
    assert Catalog("lake").list_databases() == ["db"]


@pytest.mark.parametrize("count", ["2147483648", "4294967297", "9" * 30, "9" * 5_000, "-3", "0"])
def test_buckets_are_numbers_that_files_can_hold(tmp_path: Path, count: str) -> None:
    with pytest.raises(OptionError, match="bucket"):
        Catalog(tmp_path / "lake").create_table("db.t", schema=SCHEMA, options={"bucket": count})
    table = make_table(tmp_path)
    table.write(rows_of(0))
    if len(count) < 100:
        with pytest.raises(InvalidRequestError):
            rescale(table, int(count))
    assert table.to_arrow().num_rows == 6
    Path(table.paths.schema(0)).write_text(altered_by_others(table.schema, bucket=count))
    with pytest.raises(LakelogError):
        FileStoreTable.open(table.path).write(rows_of(1))

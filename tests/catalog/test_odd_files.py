"""One odd file in a folder of a table stops no verb that does not need it, and a verb deletes it."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, CorruptDataError, InvalidRequestError, Table
from tests.support.examples import pairs_in_full

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])
NAMES = ["\n", "x\x1b[2Jy\n", "\udcff", "a\\b", "ü", "x" * 120]
FOLDERS = {
    "branch": "branch-",
    "consumer": "other-",
    "schema": "schema-",
    "snapshot": "snapshot-",
    "changelog": "changelog-",
    "lakelog/statements": "statement-",
    "lakelog/fields": "",
    "manifest": "manifest-",
    "index": "index-",
    "bucket-0": "data-",
    "statistics": "stat-",
    "": "",
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Catalog(tmp_path / "lake").create_table("db.t", schema=SCHEMA, primary_keys="id", options={"bucket": "1"})
    for number in range(3):
        table.write(rows(number))
    table.tags.create("good")
    table.branches.create("b")
    table.consumers.reset("c", 2)
    return table


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, schema=SCHEMA)


def verbs(table: Table) -> dict[str, Callable[[], object]]:
    shown = ("tags", "branches", "consumers", "schemas", "snapshots", "files", "manifests", "options")
    return {
        "write": lambda: table.write(rows(9)),
        "read": table.to_arrow,
        "tags": table.tags.list,
        "branches": table.branches.list,
        "consumers": table.consumers.list,
        "snapshots": lambda: list(table.snapshots()),
        "history": table.history,
        "describe": table.describe,
        "doctor": table.upkeep.doctor,
        "compact": lambda: table.compact(full=True),
        "expire": lambda: table.upkeep.expire_snapshots(retain_max=1, retain_min=1),
        "orphans": table.upkeep.remove_orphan_files,
        **{f"${name}": table.system.table(name).to_arrow for name in shown},
    }


def stopped(table: Table) -> dict[str, str]:
    """The verbs that raise, with their errors."""
    found = {}
    for name, verb in verbs(table).items():
        try:
            verb()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
            found[name] = repr(error)
    return found


@pytest.mark.parametrize(("name", "is_folder"), pairs_in_full(NAMES, [False, True]), ids=ascii)
@pytest.mark.parametrize("folder", FOLDERS)
def test_an_odd_file_is_in_nobodys_way(table: Table, folder: str, name: str, is_folder: bool) -> None:
    odd = Path(table.path, folder, f"{FOLDERS[folder]}{name}")
    odd.parent.mkdir(parents=True, exist_ok=True)
    odd.mkdir() if is_folder else odd.write_text("{}")
    assert stopped(table) == {}


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_tag_and_a_consumer_of_any_name_are_listed_hold_their_snapshots_and_can_be_deleted(
    table: Table, name: str
) -> None:
    folder = Path(table.path)
    table.tags.create("kept", snapshot_id=1)
    Path(folder, "tag", "tag-kept").rename(Path(folder, "tag", f"tag-{name}"))
    shutil.copy(folder / "consumer" / "consumer-c", Path(folder, "consumer", f"consumer-{name}"))
    table.consumers.delete("c")
    assert stopped(table) == {}
    assert {one.name for one in table.tags.list()} >= {name, "good"}
    assert [one.consumer_id for one in table.consumers.list()] == [name]
    assert table.store.snapshots.earliest_id() == 2  # held by the consumer
    assert table.to_arrow(tag=name).num_rows == 1  # whose files the expiry has left
    table.tags.delete(name)
    table.consumers.delete(name)
    assert name not in {one.name for one in table.tags.list()}
    assert table.consumers.list() == []


@pytest.mark.parametrize("name", [*NAMES, "plain"], ids=ascii)
def test_a_damaged_tag_is_named_can_be_deleted_and_only_expiry_waits(
    table: Table, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    Path(table.path, "tag", f"tag-{name}").write_text("{}")
    with caplog.at_level(logging.WARNING, "lakelog.filestore"):
        assert "good" in {one.name for one in table.tags.list()}
    assert f"tag {ascii(name)[:8]}"[:-1] in caplog.text or "tag 'ü'" in caplog.text
    assert stopped(table).keys() <= {"expire", "orphans"}  # what the tag keeps is not known
    table.tags.delete(name)
    assert stopped(table) == {}


@pytest.mark.parametrize("name", [*NAMES, "plain"], ids=ascii)
def test_a_damaged_consumer_is_named_can_be_deleted_and_only_expiry_waits(table: Table, name: str) -> None:
    Path(table.path, "consumer", f"consumer-{name}").write_text("{}")
    assert [one.consumer_id for one in table.consumers.list()] == ["c"]
    with pytest.raises(CorruptDataError, match="nothing expires until"):
        table.upkeep.expire_snapshots(retain_max=1, retain_min=1)
    assert stopped(table).keys() == {"expire"}
    table.consumers.delete(name)
    assert stopped(table) == {}


def test_half_a_character_is_no_name(table: Table) -> None:
    for use in (
        lambda: table.branch("\ud800"),
        lambda: table.tags.create("\ud800"),
        lambda: table.to_arrow(tag="\ud800"),
        lambda: table.consumers.reset("\ud800", 1),
        lambda: table.branches.create("\ud800"),
    ):
        with pytest.raises(InvalidRequestError, match="is not usable"):
            use()

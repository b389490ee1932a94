"""Changes outlive their snapshots where the options say so, and end by rules of their own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.common.types import ROW_KIND_COLUMN, DataField, parse_type
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.options.reading import ChangeSource
from lakelog.filestore.read.json_rows import to_json_lines
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes, expire_snapshots
from tests.support.files.faulty_file_io import FaultyFileIO, InjectedCrash
from tests.support.tables.paimon_tables import expected, unpack
from tests.support.tables.referenced import files_on_disk, referenced_files
from tests.support.tables.small_tables import UNSYNCED, in_new_process, make_table, rows_of

KEPT = {"changelog.num-retained.min": "1000", "changelog.num-retained.max": "1000"}
EVERYTHING = Retention(count_min=1, count_max=1, age_millis=0, limit=1_000)
FLINK = ["changelog_full_compaction", "changelog_input", "changelog_none", "changelog_lookup"]


def set_options(path: str, **options: str | None) -> None:
    """Change options in the schema file; None takes one away."""
    file = Path(path) / "schema" / "schema-0"
    schema = json.loads(file.read_text())
    changed = schema["options"] | {key.replace("_", "-"): text for key, text in options.items()}
    schema["options"] = {key: text for key, text in changed.items() if text is not None}
    file.write_text(json.dumps(schema))


def open_flink(name: str, folder: Path, **options: str) -> FileStoreTable:
    case = "changelog_input" if name == "changelog_none" else name
    path = unpack(case, folder) / "db.db" / name
    set_options(str(path), **options)
    return FileStoreTable.open(path, UNSYNCED)


def as_multiset(rows: list[dict[str, object]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def changes_of(table: FileStoreTable, number: int, source: ChangeSource = ChangeSource.AUTO) -> Counter[str]:
    fields = [DataField(id=-1, name=ROW_KIND_COLUMN, type=parse_type("STRING")), *table.schema.fields]
    batches = changes(table, after=number - 1, up_to=number, source=source)
    return as_multiset([json.loads(line) for batch in batches for line in to_json_lines(batch, fields)])


@pytest.mark.parametrize("name", FLINK)
def test_the_changes_of_expired_snapshots_are_those_that_flink_reads(tmp_path: Path, name: str) -> None:
    table = open_flink(name, tmp_path, **KEPT)
    case = "changelog_input" if name == "changelog_none" else name
    source = "delta" if name == "changelog_none" else "changelog"
    numbers = sorted(row["snapshot_id"] for row in expected(case, name, "snapshots"))
    expire_snapshots(table, retention=EVERYTHING)

    left = in_new_process(table.path)
    assert left.snapshots.ids() == numbers[-1:]
    for number in numbers:
        wanted = [{ROW_KIND_COLUMN: row.pop("rowkind"), **row} for row in expected(case, name, f"{source}-{number}")]
        assert changes_of(left, number) == as_multiset(wanted), number
    assert (Path(table.path) / "changelog" / "LATEST").read_text() == str(numbers[-2])
    assert files_on_disk(table.path) == referenced_files(table.path, keeps_deltas=name == "changelog_none")


@pytest.mark.parametrize("name", FLINK)
def test_changes_end_by_their_own_rule_and_leave_nothing(tmp_path: Path, name: str) -> None:
    table = open_flink(name, tmp_path, **KEPT)
    numbers = table.snapshots.ids()
    last = changes_of(table, numbers[-2])
    expire_snapshots(table, retention=EVERYTHING)
    set_options(table.path, **{"changelog.num-retained.min": "2", "changelog.num-retained.max": "2"})

    table = in_new_process(table.path)
    expired = expire_snapshots(table, retention=EVERYTHING)
    assert expired.changelog_ids == tuple(numbers[:-2])
    keeps_deltas = name == "changelog_none"
    assert files_on_disk(table.path) == referenced_files(table.path, keeps_deltas=keeps_deltas)
    assert (Path(table.path) / "changelog" / "EARLIEST").read_text() == str(numbers[-2])
    with pytest.raises(NotFoundError, match=f"those of snapshots {numbers[-2]} to {numbers[-1]} do"):
        changes_of(table, numbers[0])
    assert changes_of(table, numbers[-2]) == last

    set_options(table.path, **dict.fromkeys(KEPT))
    table = in_new_process(table.path)
    assert expire_snapshots(table, retention=EVERYTHING).changelog_ids == (numbers[-2],)
    assert list((Path(table.path) / "changelog").iterdir()) == []
    assert files_on_disk(table.path) == referenced_files(table.path)


def test_without_the_options_the_changes_go_with_the_snapshots(tmp_path: Path) -> None:
    table = open_flink("changelog_lookup", tmp_path)
    expire_snapshots(table, retention=EVERYTHING)
    assert not (Path(table.path) / "changelog").exists()
    assert files_on_disk(table.path) == referenced_files(table.path)


def test_changes_span_expired_and_living_snapshots(tmp_path: Path) -> None:
    table = make_table(tmp_path, options=KEPT)
    for batch in range(8):
        table.write(rows_of(batch))
    every = sum(batch.num_rows for batch in changes(table))
    expire_snapshots(table, retention=Retention(count_min=1, count_max=3, age_millis=0, limit=100))
    left = in_new_process(table.path)
    assert left.snapshots.earliest_id() != 1
    assert sum(batch.num_rows for batch in changes(left)) == every == 48


def filled(folder: Path, make: Callable[[Path], FileStoreTable]) -> tuple[FileStoreTable, dict[int, Counter[str]]]:
    table = make(folder)
    return table, {number: changes_of(table, number) for number in table.snapshots.ids()}


def deltas_as_changes(folder: Path) -> FileStoreTable:
    table = make_table(folder, options={"num-sorted-run.compaction-trigger": "2", **KEPT})
    for batch in range(4):
        table.write(rows_of(batch))
    return table


def files_as_changes(folder: Path) -> FileStoreTable:
    return open_flink("changelog_lookup", folder, **KEPT)


@pytest.mark.parametrize("make", [deltas_as_changes, files_as_changes])
def test_an_expiry_that_keeps_changes_is_taken_up_wherever_it_was_cut_off(
    tmp_path: Path, make: Callable[[Path], FileStoreTable], request: pytest.FixtureRequest
) -> None:
    """At each call of the gate's share; with --full at every call, before and after its effect."""
    is_full = bool(request.config.getoption("--full"))
    fails_at, step = (1, 1) if is_full else (5, 41)
    has_failed = True
    while has_failed:
        for after_effect in (False, True) if is_full else (True,):
            table, before = filled(tmp_path / f"{fails_at}{after_effect}", make)
            faulty = FaultyFileIO(UNSYNCED)
            dying = in_new_process(table.path, faulty)
            faulty.fails_at, faulty.after_effect = len(faulty.calls) + fails_at, after_effect
            has_failed = True
            try:
                expire_snapshots(dying, retention=EVERYTHING)
                has_failed = False
            except InjectedCrash:
                left = in_new_process(table.path)
                assert {number: changes_of(left, number) for number in before} == before
            again = in_new_process(table.path)
            expire_snapshots(again, retention=EVERYTHING)
            assert {number: changes_of(again, number) for number in before} == before
            assert files_on_disk(table.path) == referenced_files(table.path, keeps_deltas=make is deltas_as_changes)
        fails_at += step


def test_a_damaged_and_a_swapped_changelog_are_errors(tmp_path: Path) -> None:
    table = make_table(tmp_path, options=KEPT)
    for batch in range(4):
        table.write(rows_of(batch))
    expire_snapshots(table, retention=EVERYTHING)
    first, second = (Path(table.paths.changelog(number)) for number in (1, 2))
    good = first.read_bytes()
    for bad in (second.read_bytes(), good.replace(b'"APPEND"', b'"COMPACT"'), good[:-2]):
        first.write_bytes(bad)
        with pytest.raises(CorruptDataError, match=r"changelog-1 is damaged: .* restore the file"):
            list(changes(table, after=0, up_to=1, source=ChangeSource.DELTA))
    first.write_bytes(good)
    (Path(table.path) / "changelog" / "EARLIEST").write_text("2")  # a wrong hint hides no changes
    assert len(list(changes(table, source=ChangeSource.DELTA))) == len(
        list(changes(table, after=0, source=ChangeSource.DELTA))
    )

"""What is known of the live files of a snapshot without their entries."""

from __future__ import annotations

from pathlib import Path

from tests.support.small_tables import make_table, rows_of


def test_manifest_lists_say_how_many_files_are_live(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    for batch in range(4):
        table.write(rows_of(batch))
    table.compact(full=True)
    table.write(rows_of(4))
    for number in range(1, 7):
        snapshot = table.snapshots.get(number)
        assert table.live_files.count(snapshot) == len(list(table.live_files.of(snapshot).entries())), number

"""Many processes commit to one table at once: every acknowledged commit is there, once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from lakelog.common.errors import ConflictError
from lakelog.filestore.table import FileStoreTable
from tests.support.small_tables import append_own_rows, content, in_new_process, make_table

PROCESSES = 8
COMMITS = 10
OPTIONS = {"manifest.merge-min-count": "5", "commit.max-retries": "100", "commit.max-retry-wait": "100 ms"}
ROOT = Path(__file__).parents[2]


def race(path: str, user: str) -> None:
    """What each process does: commit its batches, and print those that were acknowledged."""
    table = FileStoreTable.open(path)
    acknowledged = []
    for batch in range(COMMITS):
        try:
            append_own_rows(table, batch, user=user)
        except ConflictError:
            continue
        acknowledged.append(batch)
    print(json.dumps(acknowledged))


def test_every_acknowledged_commit_of_eight_processes_is_there_once(tmp_path: Path) -> None:
    table = make_table(tmp_path, options=OPTIONS)
    script = f"from {__name__} import race; import sys; race(*sys.argv[1:])"
    racing = {
        str(number): subprocess.Popen(
            [sys.executable, "-c", script, table.path, str(number)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        for number in range(PROCESSES)
    }
    acknowledged: Counter[tuple[str, int]] = Counter()
    for user, process in racing.items():
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        acknowledged.update((user, batch) for batch in json.loads(output))
    assert len(acknowledged) == PROCESSES * COMMITS

    found = in_new_process(table.path)
    ids = found.snapshots.ids()
    snapshots = [found.snapshots.get(snapshot_id) for snapshot_id in ids]
    assert ids == list(range(1, len(ids) + 1))
    assert Counter((snapshot.commit_user, snapshot.commit_identifier) for snapshot in snapshots) == acknowledged
    assert snapshots[-1].total_record_count == PROCESSES * COMMITS
    assert len(content(found)) == PROCESSES * COMMITS

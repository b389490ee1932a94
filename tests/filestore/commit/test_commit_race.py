"""Many processes commit to one table at once: every acknowledged commit is there, once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from lakelog.common.errors import ConflictError
from lakelog.filestore.io.hdfs import HdfsFileIO
from lakelog.filestore.table import FileStoreTable
from tests.filestore.processes.zygote import zygote
from tests.support.servers.hdfs_server import Hdfs
from tests.support.servers.s3_server import S3Server
from tests.support.tables.small_tables import append_own_rows, content, in_new_process, make_table

OPTIONS = {"manifest.merge-min-count": "5"}


def main(path: str, user: str, commits: str, options_file: str, answer_file: str) -> None:
    """What each process does: commit its batches, by the defaults, and note those that were acknowledged."""
    table = FileStoreTable.open(path, options=json.loads(Path(options_file).read_text()))
    acknowledged = []
    for batch in range(int(commits)):
        try:
            append_own_rows(table, batch, user=user)
        except ConflictError:
            continue
        acknowledged.append(batch)
    Path(answer_file).write_text(json.dumps(acknowledged))


def run_race(table: FileStoreTable, options: dict[str, str], folder: Path, *, processes: int, commits: int) -> None:
    """Let processes race, and look for what was acknowledged: none is refused."""
    options_file = folder / "options.json"
    options_file.write_text(json.dumps(options))
    answers = {str(number): folder / f"{number}.json" for number in range(processes)}
    with zygote(__name__) as forks:
        pids = [forks.fork(table.path, user, commits, options_file, answer) for user, answer in answers.items()]
        assert [forks.wait(pid) for pid in pids] == [0] * processes
    acknowledged: Counter[tuple[str, int]] = Counter()
    for user, answer in answers.items():
        acknowledged.update((user, batch) for batch in json.loads(answer.read_text()))
    assert len(acknowledged) == processes * commits

    found = in_new_process(table.path, table.file_io)
    ids = found.snapshots.ids()
    snapshots = [found.snapshots.get(snapshot_id) for snapshot_id in ids]
    assert ids == list(range(1, len(ids) + 1))
    assert Counter((snapshot.commit_user, snapshot.commit_identifier) for snapshot in snapshots) == acknowledged
    assert snapshots[-1].total_record_count == processes * commits
    assert len(content(found)) == processes * commits


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("store", "processes", "commits"),
    [
        ("local", 4, 5),
        ("s3", 4, 5),
        pytest.param("local", 16, 50, marks=pytest.mark.full),
        pytest.param("s3", 16, 10, marks=pytest.mark.full),
        pytest.param("hdfs", 6, 5, marks=pytest.mark.full),
    ],
)
def test_every_acknowledged_commit_of_racing_processes_is_there_once(
    tmp_path: Path, request: pytest.FixtureRequest, store: str, processes: int, commits: int
) -> None:
    if store == "local":
        run_race(make_table(tmp_path, options=OPTIONS), {}, tmp_path, processes=processes, commits=commits)
        return
    if store == "hdfs":
        hdfs: Hdfs = request.getfixturevalue("hdfs")
        table = make_table(f"{hdfs.url}{tmp_path}/warehouse", HdfsFileIO(), options=OPTIONS)
        run_race(table, {}, tmp_path, processes=processes, commits=commits)
        return
    server: S3Server = request.getfixturevalue("s3")
    folder = f"s3://{server.new_bucket()}/warehouse"
    table = make_table(folder, server.file_io(), options=OPTIONS)
    run_race(table, server.options, tmp_path, processes=processes, commits=commits)

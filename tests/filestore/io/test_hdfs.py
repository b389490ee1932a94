"""Tables in HDFS: a real NameNode and DataNode, killed and started again, and answers that get lost."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hdfs_native import Client

from lakelog.catalog import Catalog
from lakelog.common.errors import InvalidRequestError, OptionError, UnavailableError
from lakelog.filestore.commit import find_commit
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.io.hdfs import HdfsFileIO
from lakelog.filestore.io.location import Location
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import drop_partitions, expire_snapshots
from tests.support.servers.hdfs_server import DATA_NODE, NAME_NODE, Hdfs, running_hdfs
from tests.support.tables.small_tables import commit_batch, content, content_after, in_new_process, make_table

COLUMNS = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string()), pa.field("n", pa.int64())]
)


IMPATIENT = HdfsFileIO((("dfs.client.failover.max.attempts", "3"),))


@pytest.fixture
def folder(hdfs: Hdfs, tmp_path: Path) -> str:
    return f"{hdfs.url}{tmp_path}"


def test_a_table_is_created_written_compacted_expired_and_read(folder: str) -> None:
    catalog = Catalog(f"{folder}/lake")
    table = catalog.create_table("db.t", schema=COLUMNS, primary_keys=["id"], options={"bucket": "2"})
    for n in range(4):
        rows = {"id": list(range(100)), "day": ["a/b", "c:d ü"] * 50, "n": [n] * 100}
        table.write(pa.table(rows, schema=COLUMNS))
    files = FileStoreTable.open(table.path)
    files.compact(full=True)
    expire_snapshots(files, retention=Retention(count_min=1, count_max=1, age_millis=0, limit=100))
    again = Catalog(f"{folder}/lake").load_table("db.t")
    assert again.to_arrow().sort_by("id")["n"].to_pylist() == [3] * 100
    assert again.to_arrow(where="id = 7")["day"].to_pylist() == ["c:d ü"]
    assert files.snapshots.ids() == [5]
    assert find_commit(files, str(files.snapshots.get(5).uuid)).snapshot_id == 5
    assert find_commit(files, "lost").expired_up_to == 4
    catalog.drop_table("db.t")
    assert files.files_at(f"{folder}/lake").list_names(f"{folder}/lake/db.db") == []


@pytest.mark.full
def test_partitions_are_folders_there(folder: str) -> None:
    schema = build_schema(COLUMNS, partition_keys=["day"], options={"bucket": "-1"})
    table = FileStoreTable.create(f"{folder}/t", schema)
    table.write(pa.table([[1, 2, 3, 4], ["a/b", "c d:ü", None, "a%b"], [0, 0, 0, 0]], schema=COLUMNS))
    drop_partitions(table, "day = 'c d:ü'")
    table.write(pa.table([[5], ["a/b"], [1]], schema=COLUMNS), mode="overwrite-partitions")
    assert sorted(table.to_arrow()["id"].to_pylist()) == [3, 4, 5]
    assert {name for name in table.file_io.list_names(table.path) if "=" in name} >= {"day=a%2Fb", "day=a%25b"}


@pytest.mark.full
def test_a_commit_goes_on_when_the_name_node_comes_back(tmp_path: Path) -> None:
    with running_hdfs(tmp_path) as hdfs:
        table = make_table(f"{hdfs.url}/lake", IMPATIENT)
        commit_batch(table, 0)
        hdfs.kill(NAME_NODE)
        with pytest.raises(UnavailableError, match=r"hdfs://.*HDFS does not answer"):
            commit_batch(table, 1)
        hdfs.start(NAME_NODE)
        hdfs.wait()
        for batch in (1, 2):
            commit_batch(table, batch)
        hdfs.kill(DATA_NODE)
        hdfs.start(DATA_NODE)
        hdfs.wait()
        assert content(in_new_process(table.path, table.file_io)) == content_after(3)


# What becomes of lost answers


class Unlucky:
    """A client whose renames fail, before or after their effect."""

    def __init__(self, client: Client, *, takes_effect: bool, error: Exception) -> None:
        self._client, self._takes_effect, self._error = client, takes_effect, error

    def rename(self, source: str, target: str, overwrite: bool = False) -> None:
        if self._takes_effect:
            self._client.rename(source, target, overwrite)
        raise self._error

    def __getattr__(self, name: str) -> object:
        return getattr(self._client, name)


@pytest.fixture
def path(folder: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    yield f"{folder}/snapshot/snapshot-1"
    monkeypatch.undo()
    assert [name for name in HdfsFileIO().list_names(f"{folder}/snapshot") if name.startswith(".")] == []


def make_unlucky(monkeypatch: pytest.MonkeyPatch, hdfs: Hdfs, *, takes_effect: bool, error: Exception) -> None:
    client = Unlucky(Client(hdfs.url), takes_effect=takes_effect, error=error)
    monkeypatch.setattr("lakelog.filestore.io.hdfs._client_of", lambda *_: client)


@pytest.mark.parametrize("error", [OSError("connection reset"), FileExistsError("of its own first try")])
def test_a_file_whose_rename_got_no_answer_is_created(
    hdfs: Hdfs, path: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    make_unlucky(monkeypatch, hdfs, takes_effect=True, error=error)
    assert HdfsFileIO().create_new(path, b"1")
    assert HdfsFileIO().read_bytes(path) == b"1"


def test_a_file_whose_rename_failed_is_not_there(hdfs: Hdfs, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_unlucky(monkeypatch, hdfs, takes_effect=False, error=OSError("connection reset"))
    with pytest.raises(UnavailableError, match="connection reset"):
        HdfsFileIO().create_new(path, b"1")
    assert not HdfsFileIO().exists(path)


def test_a_file_that_another_process_created_first_stays(
    hdfs: Hdfs, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_unlucky(monkeypatch, hdfs, takes_effect=False, error=FileExistsError("theirs"))
    assert not HdfsFileIO().create_new(path, b"1")


# How it is reached


def test_settings_of_hadoop_are_given_with_the_catalog(hdfs: Hdfs, tmp_path: Path) -> None:
    options = {
        "hadoop.dfs.ha.namenodes.mycluster": "one",
        "hadoop.dfs.namenode.rpc-address.mycluster.one": hdfs.url.removeprefix("hdfs://"),
    }
    catalog = Catalog(f"hdfs://mycluster{tmp_path}", options=options)
    catalog.create_table("db.t", schema=COLUMNS, primary_keys=["id"])
    assert Catalog(f"{hdfs.url}{tmp_path}").load_table("db.t").to_arrow().num_rows == 0
    assert b"dfs.ha" not in HdfsFileIO().read_bytes(f"{hdfs.url}{tmp_path}/db.db/t/schema/schema-0")


def test_what_is_wrong_with_a_place_is_said(hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match=r"s3\.region: HDFS takes Hadoop's settings with 'hadoop.'"):
        Location.of(hdfs.url, {"s3.region": "x"})
    with pytest.raises(InvalidRequestError, match="hdfs://namenode:8020/lake") as refused:
        Location.of("hdfs://me:secret@nn/lake")
    assert "secret" not in str(refused.value)
    monkeypatch.setitem(sys.modules, "lakelog.filestore.io.hdfs", None)
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    monkeypatch.delitem(sys.modules, "lakelog.filestore.io.hdfs")
    with pytest.raises(InvalidRequestError, match=r"needs hdfs-native: pip install 'lakelog\[hdfs\]'"):
        Location.of(f"{hdfs.url}/lake")

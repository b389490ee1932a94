"""The requests of commits and reads in an object store: which are made at once, and which are not made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from lakelog.common.errors import ConflictError, NotFoundError
from lakelog.filestore.metadata.manifests.manifest import COLUMNS_CACHE, ENTRY_CACHE
from lakelog.filestore.metadata.tables import files_of_table
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from tests.support.servers.s3_proxy import Fault, Request, S3Proxy, s3_proxy
from tests.support.servers.s3_server import S3Server

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int64())])
BUCKETS = 4
WAIT_SECONDS = 20.0


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[S3Proxy]:
    with s3_proxy(s3.endpoint) as proxy:
        yield proxy


@pytest.fixture
def path(s3: S3Server) -> str:
    options = {"bucket": str(BUCKETS), "num-sorted-run.compaction-trigger": "100"}
    path = f"s3://{s3.new_bucket()}/t"
    FileStoreTable.create(path, build_schema(SCHEMA, primary_keys=["id"], options=options), options=s3.options)
    return path


@pytest.fixture
def opened(s3: S3Server, proxy: S3Proxy, path: str) -> Callable[[], FileStoreTable]:
    return lambda: FileStoreTable.open(path, options=s3.options_at(proxy.endpoint))


def rows(n: int, ids: range = range(40)) -> pa.Table:
    return pa.table([list(ids), [n] * len(ids)], schema=SCHEMA)


def values(table: FileStoreTable) -> set[tuple[int, int]]:
    found = table.to_arrow().to_pydict()
    return set(zip(found["id"], found["n"], strict=True))


def is_list(request: Request) -> bool:
    return "list-type" in request.path


def meeting(count: int, where: Callable[[Request], bool]) -> Callable[[Request], Fault]:
    """Lets the requests of a kind wait for each other: they fail unless so many are made at once."""
    barrier = threading.Barrier(count)

    def choose(request: Request) -> Fault:
        if where(request):
            try:
                barrier.wait(WAIT_SECONDS)
            except threading.BrokenBarrierError:
                return Fault.FORBID
        return Fault.NONE

    return choose


@pytest.mark.parametrize(
    ("count", "part"),
    [(BUCKETS, "/bucket-"), (3, "/manifest/")],
    ids=["data files", "the manifest and both lists"],
)
def test_the_files_of_a_commit_are_uploaded_at_once(
    opened: Callable[[], FileStoreTable], proxy: S3Proxy, count: int, part: str
) -> None:
    table = opened()
    table.write(rows(1))
    proxy.choose = meeting(count, lambda request: request.method == "PUT" and part in request.path)
    table.write(rows(2))
    assert values(table) == {(number, 2) for number in range(40)}


def test_rows_are_uploaded_while_the_table_is_looked_at(opened: Callable[[], FileStoreTable], proxy: S3Proxy) -> None:
    table = opened()
    table.write(rows(1))
    together = [("PUT", "/bucket-0/"), ("GET", "/snapshot/LATEST"), ("HEAD", "/schema/schema-1")]
    proxy.choose = meeting(
        len(together), lambda request: any(request.method == how and part in request.path for how, part in together)
    )
    table.write(rows(2))
    proxy.choose = lambda _: Fault.NONE
    assert values(table) == {(number, 2) for number in range(40)}


def test_a_commit_of_an_open_handle_lists_nothing_and_makes_few_requests(
    opened: Callable[[], FileStoreTable], proxy: S3Proxy
) -> None:
    table = opened()
    table.write(rows(1))
    proxy.requests.clear()
    table.write(rows(2))
    assert proxy.count(is_list) == 0
    assert len(proxy.requests) == 15, [f"{one.method} {one.path}" for one in proxy.requests]


def test_rows_written_on_an_older_snapshot_are_moved_behind_those_of_others(
    opened: Callable[[], FileStoreTable], path: str
) -> None:
    one, other = opened(), opened()
    one.write(rows(1))
    other.write(rows(2))
    one.write(rows(3, range(20)))  # written on its own snapshot, which is not the newest
    expected = {(number, 3) for number in range(20)} | {(number, 2) for number in range(20, 40)}
    assert values(opened()) == expected
    names = {name for number in range(BUCKETS) for name in one.file_io.list_names(f"{path}/bucket-{number}")}
    assert names == {
        file.path.rpartition("/")[2] for file in files_of_table(*one.travelled())
    }  # those that were moved are deleted


def test_a_dropped_table_gets_no_files(opened: Callable[[], FileStoreTable], s3: S3Server, path: str) -> None:
    table = opened()
    table.write(rows(1))
    file_io = s3.file_io()
    file_io.delete_tree(path)
    with pytest.raises(ConflictError, match="dropped"):
        table.write(rows(2))
    assert file_io.list_names(path) == []


def test_a_lookup_in_a_table_opened_anew_lists_only_schemas(
    opened: Callable[[], FileStoreTable], proxy: S3Proxy
) -> None:
    table = opened()
    table.write(rows(1))
    table.to_arrow(where="id = 1")
    proxy.requests.clear()
    assert opened().to_arrow(where="id = 2").to_pylist() == [{"id": 2, "n": 1}]
    assert [one.path for one in proxy.requests if is_list(one) and "/schema/" not in one.path] == []
    assert len(proxy.requests) <= 7, [f"{one.method} {one.path}" for one in proxy.requests]


def test_the_files_of_a_read_are_fetched_at_once(opened: Callable[[], FileStoreTable], proxy: S3Proxy) -> None:
    table = opened()
    for n in range(3):
        table.write(rows(n))
    proxy.choose = meeting(3 * BUCKETS, lambda request: "/bucket-" in request.path)
    assert values(table) == {(number, 2) for number in range(40)}


def test_the_manifests_of_a_plan_are_fetched_at_once(opened: Callable[[], FileStoreTable], proxy: S3Proxy) -> None:
    table = opened()
    for n in range(3):
        table.write(rows(n))
    ENTRY_CACHE.clear()
    COLUMNS_CACHE.clear()
    proxy.choose = meeting(3, lambda request: "/manifest/manifest-" in request.path and "list" not in request.path)
    assert values(opened()) == {(number, 2) for number in range(40)}


def test_a_lost_file_whose_footer_is_known_is_named(opened: Callable[[], FileStoreTable], s3: S3Server) -> None:
    table = opened()
    table.write(rows(1))
    values(table)
    lost = files_of_table(*table.travelled())[0].path
    s3.file_io().delete(lost)
    with pytest.raises(NotFoundError, match=f"data file {lost} is missing"):
        table.to_arrow()

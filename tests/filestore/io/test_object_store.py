"""Tables in an object store: lost answers, refused stores, ranges, and keys that nobody sees."""

from __future__ import annotations

import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakelog.common.errors import (
    InvalidRequestError,
    LakelogError,
    NotFoundError,
    OptionError,
    UnavailableError,
    UnknownOutcomeError,
    UnsupportedError,
)
from lakelog.filestore.commit import find_commit
from lakelog.filestore.commit.outcomes import CommitOutcome, FoundCommit
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.formats.blocks.checked import BLOCK_BYTES
from lakelog.filestore.formats.parquet.parquet_writing import LOOKED_UP_GROUP_ROWS
from lakelog.filestore.io import object_probe
from lakelog.filestore.io.location import Location
from lakelog.filestore.io.object_store import ObjectStoreFileIO
from lakelog.filestore.io.s3_access import S3Access
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import drop_partitions, expire_snapshots
from tests.support.servers.s3_proxy import Fault, Request, S3Proxy, s3_proxy
from tests.support.servers.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.support.tables.small_tables import (
    NO_WAIT,
    SCHEMA,
    commit_batch,
    committed_batches,
    content,
    content_after,
    in_new_process,
    make_table,
    rows_of,
)

ROOT = Path(__file__).parents[3]
PATIENCE = {"connection_timeout": "1500 ms"}  # where an answer is held back; a busy machine answers sooner


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[S3Proxy]:
    with s3_proxy(s3.endpoint) as proxy:
        yield proxy


@pytest.fixture
def folder(s3: S3Server) -> str:
    return f"s3://{s3.new_bucket()}/warehouse"


@pytest.fixture
def unprobed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_probe, "_PASSED", set())


def is_create(name: str) -> Callable[[Request], bool]:
    return lambda request: request.method == "PUT" and request.is_conditional and name in request.path


# What becomes of a table


@pytest.mark.parametrize(
    "engine",
    ["deduplicate", *(pytest.param(name, marks=pytest.mark.full) for name in ("partial-update", "aggregation"))],
)
def test_a_table_is_written_merged_compacted_and_read(s3: S3Server, folder: str, engine: str) -> None:
    columns = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), pa.field("a", pa.int64()), pa.field("b", pa.int64())]
    )
    options = {"bucket": "2", "merge-engine": engine, "fields.default-aggregate-function": "sum"}
    if engine != "aggregation":
        del options["fields.default-aggregate-function"]
    schema = build_schema(columns, primary_keys=["id"], options=options)
    FileStoreTable.create(f"{folder}/t", schema, options=s3.options)
    table = FileStoreTable.open(f"{folder}/t", options=s3.options)
    for a, b in ((1, 10), (2, None)):
        ids = list(range(100))
        table.write(pa.table([pa.array(ids), pa.array([a] * 100), pa.array([b] * 100, pa.int64())], schema=columns))

    expected = {"deduplicate": (2, None), "partial-update": (2, 10), "aggregation": (3, 10)}[engine]
    for _ in range(2):
        rows = table.to_arrow().sort_by("id").to_pylist()
        assert rows == [{"id": number, "a": expected[0], "b": expected[1]} for number in range(100)]
        table.compact(full=True)
    assert table.to_arrow(where="id < 3").num_rows == 3


def test_append_tables_and_partitions_live_there_too(s3: S3Server, folder: str) -> None:
    columns = pa.schema({"day": pa.string(), "id": pa.int64()})
    schema = build_schema(columns, partition_keys=["day"], options={"bucket": "-1"})
    table = FileStoreTable.create(f"{folder}/t", schema, options=s3.options)
    table.write(pa.table([["a/b", "c d", None], [1, 2, 3]], schema=columns))
    table.write(pa.table([["a/b"], [4]], schema=columns), mode="overwrite-partitions")
    assert sorted(table.to_arrow()["id"].to_pylist()) == [2, 3, 4]
    drop_partitions(table, "day = 'c d'")
    assert sorted(table.to_arrow()["id"].to_pylist()) == [3, 4]


def test_expiry_leaves_what_the_newest_snapshot_shows(s3: S3Server, folder: str) -> None:
    table = make_table(folder, s3.file_io())
    for batch in range(4):
        commit_batch(table, batch)
    table.compact(full=True)
    before = set(table.file_io.list_names(f"{table.path}/bucket-0"))
    expired = expire_snapshots(table, retention=Retention(count_min=1, count_max=1, age_millis=0, limit=100))

    assert expired.snapshot_ids == (1, 2, 3, 4)
    assert set(table.file_io.list_names(f"{table.path}/bucket-0")) < before
    assert content(in_new_process(table.path, table.file_io)) == content_after(4)


# What becomes of lost answers


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (Fault.LOSE_ANSWER, "/snapshot/snapshot-2"),
        (Fault.LOSE_ANSWER, "/manifest/manifest-"),
        (Fault.HOLD_ANSWER, "/snapshot/snapshot-2"),
        pytest.param(Fault.HOLD_ANSWER, "/manifest/manifest-", marks=pytest.mark.full),
        pytest.param(Fault.FAIL, "/snapshot/snapshot-2", marks=pytest.mark.full),
        pytest.param(Fault.FAIL, "/manifest/manifest-", marks=pytest.mark.full),
    ],
)
def test_a_put_whose_answer_is_lost_is_one_commit(
    s3: S3Server, proxy: S3Proxy, folder: str, fault: Fault, name: str
) -> None:
    given = PATIENCE if fault is Fault.HOLD_ANSWER else {}
    table = make_table(folder, s3.file_io(proxy.endpoint, **given))
    commit_batch(table, 0)
    proxy.requests.clear()
    proxy.next_is(fault, where=is_create(name))

    snapshot = commit_batch(table, 1)

    assert snapshot is not None
    assert snapshot.id == 2
    assert proxy.count(is_create("/snapshot/")) == (2 if "snapshot" in name else 1)  # the second is told 412
    found = in_new_process(table.path, s3.file_io())
    assert committed_batches(found) == [0, 1]
    assert content(found) == content_after(2)


def test_a_put_that_takes_effect_after_its_client_gave_up_is_one_commit(
    s3: S3Server, proxy: S3Proxy, folder: str
) -> None:
    table = make_table(folder, s3.file_io(proxy.endpoint, attempts_maximum="1", **PATIENCE))
    commit_batch(table, 0)
    tries: list[Request] = []

    def choose(request: Request) -> Fault:
        if not is_create("/snapshot/snapshot-2")(request):
            return Fault.NONE
        tries.append(request)
        if len(tries) == 1:
            return Fault.HOLD_REQUEST
        proxy.released.set()  # the first try arrives just before the second
        assert proxy.landed.wait(30)
        return Fault.NONE

    proxy.choose = choose
    snapshot = commit_batch(table, 1)

    assert len(tries) == 2
    assert snapshot is not None
    found = in_new_process(table.path, s3.file_io())
    assert Counter(committed_batches(found)) == Counter([0, 1])
    assert content(found) == content_after(2)


def test_a_put_without_answer_and_a_store_that_stays_away_are_found_out(
    s3: S3Server, proxy: S3Proxy, folder: str
) -> None:
    table = make_table(folder, s3.file_io(proxy.endpoint, attempts_maximum="1"), options={"write-only": "true"})
    table.write(rows_of(0))
    gone: list[Request] = []

    def choose(request: Request) -> Fault:
        if is_create("/snapshot/snapshot-2")(request):
            gone.append(request)
            return Fault.LOSE_ANSWER
        return Fault.FAIL if gone else Fault.NONE

    proxy.choose = choose
    with pytest.raises(UnknownOutcomeError, match="find-commit") as raised:
        table.write(rows_of(1), clock=NO_WAIT)
    assert raised.value.commit_uuid is not None
    found = find_commit(in_new_process(table.path, s3.file_io()), raised.value.commit_uuid, snapshot_id=2)
    assert found == FoundCommit(outcome=CommitOutcome.COMMITTED, snapshot_id=2)


def test_another_writers_snapshot_is_never_taken_for_ones_own(s3: S3Server, proxy: S3Proxy, folder: str) -> None:
    io = s3.file_io(proxy.endpoint)
    assert s3.file_io().create_new(f"{folder}/f", b"same bytes")
    proxy.next_is(Fault.LOSE_ANSWER, where=is_create("/f"))
    assert not io.create_new(f"{folder}/f", b"same bytes")


def test_a_store_that_never_answers_is_an_error_and_no_outcome(s3: S3Server, proxy: S3Proxy, folder: str) -> None:
    io = s3.file_io(proxy.endpoint, attempts_maximum="2")
    io.write_bytes(f"{folder}/probed", b"")
    proxy.next_is(Fault.FAIL, where=is_create("/f"), times=100)
    with pytest.raises(UnavailableError, match="does not answer as it should"):
        io.create_new(f"{folder}/f", b"1")
    proxy.next_is(Fault.NONE, where=is_create("/f"))
    assert io.create_new(f"{folder}/f", b"1")


def test_a_refusal_says_which_keys_to_look_at(s3: S3Server, proxy: S3Proxy, folder: str) -> None:
    io = s3.file_io(proxy.endpoint)
    io.write_bytes(f"{folder}/probed", b"")
    proxy.next_is(Fault.FORBID, where=lambda request: True, times=100)
    for call in (lambda: io.create_new(f"{folder}/f", b"1"), lambda: io.read_bytes(f"{folder}/f")):
        with pytest.raises(UnavailableError, match=r"refuses the request: .*AWS_SECRET_ACCESS_KEY"):
            call()


def test_a_missing_bucket_is_named(s3: S3Server) -> None:
    with pytest.raises(NotFoundError, match=r"no bucket 'nobody-s-bucket'; create it"):
        FileStoreTable.open("s3://nobody-s-bucket/t", options=s3.options)


def test_a_writer_that_fails_leaves_no_object(s3: S3Server, proxy: S3Proxy, folder: str) -> None:
    table = make_table(folder, s3.file_io(proxy.endpoint, attempts_maximum="1"))
    proxy.next_is(Fault.FAIL, where=lambda request: "/bucket-0/" in request.path and request.method == "PUT")
    with pytest.raises(UnavailableError):
        commit_batch(table, 0)
    assert not [name for name in table.file_io.list_names(table.path) if name.startswith("bucket")]


def write_and_die(path: str, options: str) -> None:
    """What a process does that is killed in the middle of a file."""
    output = Location.of(path, json.loads(options)).file_io.open_output(path)
    output.write(bytes(40_000_000))
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.full
def test_a_writer_that_is_killed_leaves_no_object(s3: S3Server, folder: str) -> None:
    command = f"from {__name__} import write_and_die; import sys; write_and_die(*sys.argv[1:])"
    path, options = f"{folder}/bucket-0/data", json.dumps(s3.options)
    killed = subprocess.run([sys.executable, "-c", command, path, options], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    uploads = s3.request("GET", f"/{folder.split('/')[2]}?uploads").decode()
    assert "bucket-0/data" in uploads  # parts had been sent
    assert not s3.file_io().exists(path)
    assert s3.file_io().list_names(f"{folder}/bucket-0") == []


def fork_and_read(path: str, options: str) -> None:
    """What a process does that forks after it has used a store."""
    file_io = Location.of(path, json.loads(options)).file_io
    file_io.write_bytes(path, b"1")
    child = os.fork()
    if not child:
        try:
            file_io.read_bytes(path)
        except InvalidRequestError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)


@pytest.mark.full
def test_a_forked_process_gets_an_error_and_does_not_hang(s3: S3Server, folder: str) -> None:
    command = f"from {__name__} import fork_and_read; import sys; fork_and_read(*sys.argv[1:])"
    arguments = [sys.executable, "-W", "ignore", "-c", command, f"{folder}/f", json.dumps(s3.options)]
    ended = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert "start processes with multiprocessing.get_context('spawn')" in ended.stdout


# Which stores are refused


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize(
    ("fault", "where", "says"),
    [
        (Fault.DROP_CONDITION, is_create("probe"), r"second put with If-None-Match: \* replaced the object"),
        (Fault.NOT_IMPLEMENTED, is_create("probe"), r"first put with If-None-Match: \* was not taken: .*501"),
        (Fault.DROP_METADATA, is_create("probe"), r"metadata back gave the token None"),
        (Fault.HIDE_FROM_LISTS, lambda request: "list-type=2" in request.path, "listing after a put did not show"),
    ],
)
def test_a_store_that_cannot_hold_commits_is_refused_before_anything_is_written(  # noqa: PLR0917  # its case and the fixtures
    s3: S3Server, proxy: S3Proxy, folder: str, fault: Fault, where: Callable[[Request], bool], says: str
) -> None:
    io = s3.file_io(proxy.endpoint, attempts_maximum="2")
    proxy.next_is(fault, where=where, times=1_000)
    for write in (
        lambda: make_table(folder, io),
        lambda: io.write_bytes(f"{folder}/f", b""),
        lambda: io.open_output(f"{folder}/f"),
    ):
        with pytest.raises(UnsupportedError, match=says) as refused:
            write()
        assert "Use a store with conditional writes" in str(refused.value)
        assert proxy.endpoint in str(refused.value)
    assert s3.file_io().list_names(folder) == []


@pytest.mark.usefixtures("unprobed")
def test_a_store_is_tried_out_once_and_not_for_reads(s3: S3Server, proxy: S3Proxy, folder: str) -> None:
    table = make_table(folder, s3.file_io())
    commit_batch(table, 0)
    io = s3.file_io(proxy.endpoint)
    assert content(in_new_process(table.path, io)) == content_after(1)
    assert not proxy.count(lambda request: "probe" in request.path)

    for batch in (1, 2):
        commit_batch(in_new_process(table.path, io), batch)
    assert proxy.count(is_create("probe")) == 2
    assert not [name for name in s3.file_io().list_names(f"{table.path}/schema") if "probe" in name]


@pytest.mark.usefixtures("unprobed")
def test_a_probe_whose_first_answer_is_lost_is_passed(s3: S3Server, proxy: S3Proxy, folder: str) -> None:
    proxy.next_is(Fault.LOSE_ANSWER, where=is_create("probe"))
    make_table(folder, s3.file_io(proxy.endpoint))


# What is fetched


def test_a_read_of_one_column_fetches_that_column(s3: S3Server, proxy: S3Proxy, folder: str) -> None:
    rng, rows = np.random.default_rng(7), 200_000
    wide = {f"v{number}": pa.array(rng.integers(0, 1 << 60, rows)) for number in range(12)}
    columns = {"id": pa.array(np.arange(rows)), **wide}
    rows_given = pa.table(columns, schema=pa.schema([pa.field(name, pa.int64(), name != "id") for name in columns]))
    schema = build_schema(rows_given.schema, primary_keys=["id"])
    table = FileStoreTable.create(f"{folder}/t", schema, options=s3.options)
    table.write(rows_given)
    table.compact(full=True)
    (split,) = table.live_files.of(table.snapshots.latest()).entries()
    path = table.data_path(split.bucket_id, split.file)

    found = in_new_process(table.path, s3.file_io(proxy.endpoint)).to_arrow(columns=["v3"])

    assert found["v3"].to_pylist() == rows_given["v3"].to_pylist()
    fetched = sum(request.answer_bytes for request in proxy.requests if path.endswith(request.path.split("/")[-1]))
    # A 13th of the file, and a block for each row group: whole blocks are fetched, whose checksums the manifest tells.
    groups = -(-rows // LOOKED_UP_GROUP_ROWS)
    assert fetched < split.file.file_size_bytes / 13 + (groups + 1) * BLOCK_BYTES
    assert fetched < split.file.file_size_bytes / 2


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_read_that_the_store_does_not_answer_is_no_corruption(
    s3: S3Server, proxy: S3Proxy, folder: str, file_format: str
) -> None:
    table = make_table(folder, s3.file_io(), options={"file.format": file_format})
    ids = np.unique(np.random.default_rng(7).integers(0, 1 << 60, 250_000))
    table.write(pa.table([pa.array(ids[:200_000]), pa.nulls(200_000, pa.int32())], schema=SCHEMA))
    reading = in_new_process(table.path, s3.file_io(proxy.endpoint, attempts_maximum="1"))
    opened: list[str] = []

    def is_second_of_a_file(request: Request) -> bool:
        opened.append(request.path)
        return request.path.endswith(f".{file_format}") and request.path in opened[:-1]

    proxy.next_is(Fault.FAIL, where=is_second_of_a_file, times=100)
    with pytest.raises(UnavailableError, match="does not answer as it should"):
        reading.to_arrow()
    proxy.choose = lambda request: Fault.NONE
    assert reading.to_arrow().num_rows == 200_000


@pytest.mark.full
def test_folders_of_more_than_a_page_are_listed_and_deleted_whole(s3: S3Server, folder: str) -> None:
    io, names = s3.file_io(), {f"f-{number}" for number in range(1_100)}
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: io.write_bytes(f"{folder}/t/{name}", b""), names))
    assert set(io.list_names(f"{folder}/t")) == names
    io.delete_tree(f"{folder}/t")
    assert io.list_names(folder) == []


# Who sees the keys


def everything_that_is_shown(table: FileStoreTable, access: S3Access) -> Iterator[str]:
    io = table.file_io
    for thing in (table, io, access, Location(table.path, io), table.snapshots, table.schema, table.options):
        yield repr(thing)
        yield str(thing)


def test_keys_are_shown_and_stored_nowhere(
    s3: S3Server, proxy: S3Proxy, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {**s3.options_at(proxy.endpoint), "s3.attempts.maximum": "1"}
    options["s3.session.token"] = token = "test-token-that-nobody-may-see"
    shown: list[str] = []
    with caplog.at_level(logging.DEBUG):
        table = make_table(folder, ObjectStoreFileIO(S3Access.of(options)))
        commit_batch(table, 0)
        for fault in (Fault.FORBID, Fault.FAIL, Fault.LOSE_ANSWER):
            proxy.next_is(fault, where=lambda request: True, times=3)
            with pytest.raises(LakelogError) as failed:
                table.file_io.read_bytes(f"{folder}/gone")
            error: BaseException | None = failed.value
            while error is not None:
                shown.append(f"{error!r} {error}")
                error = error.__cause__
        proxy.choose = lambda request: Fault.NONE
        shown += everything_that_is_shown(pickle.loads(pickle.dumps(table)), S3Access.of(options))
    shown += [record.getMessage() for record in caplog.records]
    listed = s3.request("GET", f"/{folder.split('/')[2]}?list-type=2").decode()
    keys = [part.split("</Key>")[0] for part in listed.split("<Key>")[1:]]
    assert len(keys) > 5
    shown += [s3.request("GET", f"/{folder.split('/')[2]}/{key}").decode(errors="replace") for key in keys]
    shown.append(listed)
    for secret in (SECRET_KEY, token, ACCESS_KEY):
        assert not [text for text in shown if secret in text]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"s3.secret-key": SECRET_KEY}, "given without s3.access-key"),
        ({"s3.session.token": SECRET_KEY}, "given without s3.access-key and s3.secret-key"),
        ({"s3.endpoint": f"http://me:{SECRET_KEY}@host"}, "holds keys"),
        ({"s3.endpoint": "host:9000"}, "expected a URL"),
        ({"s3.secretkey": SECRET_KEY}, "did you mean 's3.secret-key'"),
        ({"s3.path.style.access": "maybe"}, "true or false"),
    ],
)
def test_wrong_options_are_named_without_what_is_secret(given: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidRequestError, match=says) as refused:
        Location.of("s3://bucket/folder", given)
    assert SECRET_KEY not in str(refused.value)


def test_paths_that_name_no_store_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"gs:// is not supported: .* s3://bucket/folder"):
        Location.of("gs://bucket/folder")
    with pytest.raises(InvalidRequestError, match="names no bucket"):
        Location.of("s3:///folder")
    with pytest.raises(InvalidRequestError, match="names no bucket") as refused:
        Location.of(f"s3://me:{SECRET_KEY}@bucket/folder")
    assert SECRET_KEY not in str(refused.value)
    with pytest.raises(OptionError, match="a local folder takes no options"):
        Location.of(tmp_path, {"s3.region": "x"})


def test_keys_of_the_environment_are_used_where_none_are_given(
    s3: S3Server, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in s3.environment.items():
        monkeypatch.setenv(key, value)
    table = make_table(folder, Location.of(folder).file_io)
    commit_batch(table, 0)
    assert content(table) == content_after(1)


def test_stores_are_used_from_many_threads(s3: S3Server, folder: str) -> None:
    io, start = s3.file_io(), threading.Barrier(8)

    def write(number: int) -> bytes:
        start.wait()
        io.write_bytes(f"{folder}/{number}", str(number).encode())
        return io.read_bytes(f"{folder}/{number}")

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(write, range(8))) == [str(number).encode() for number in range(8)]

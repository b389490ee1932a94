"""The lease of the one writer of a table with an eventual log."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.table import FileStoreTable
from lakelog.protocol.writing.writer_lease import LEASE_MILLIS, SPARE_MILLIS, WriterLease, WriterLeaseError, take_lease
from tests.support.tables.small_tables import make_table


def let_age(table: FileStoreTable, millis: int) -> None:
    """Make the files of leases older."""
    for path in leases(table):
        at = path.stat().st_mtime - millis / 1000
        os.utime(path, (at, at))


def leases(table: FileStoreTable) -> list[Path]:
    return sorted(Path(table.path, "lakelog").glob("writer-*"))


def test_a_second_query_is_refused_while_the_lease_lasts(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    held = take_lease(table, user="a", run="1")
    held.check()
    with pytest.raises(WriterLeaseError, match=r"the query a writes table .* which has an eventual log and one writer"):
        take_lease(table, user="b", run="2")
    held.check()


def test_a_lease_that_was_not_renewed_can_be_taken_and_is_lost_then(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    first = take_lease(table, user="a", run="1")
    let_age(table, LEASE_MILLIS)
    second = take_lease(table, user="b", run="2")
    for use in (first.check, first.renew):
        with pytest.raises(WriterLeaseError, match="the query b writes table"):
            use()
    second.check()
    assert [path.name for path in leases(table)] == [f"writer-{second.number}"]


def test_an_old_lease_is_not_used_before_it_is_renewed(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    held = take_lease(table, user="a", run="1")
    let_age(table, LEASE_MILLIS - SPARE_MILLIS + 1000)
    with pytest.raises(WriterLeaseError, match="was renewed"):
        held.check()
    held.renew()
    held.check()


def test_a_new_run_of_the_same_query_takes_over_at_once(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    older = take_lease(table, user="a", run="1")
    newer = take_lease(table, user="a", run="2")
    with pytest.raises(WriterLeaseError, match="another run of the query a"):
        older.check()
    newer.check()
    assert take_lease(table, user="a", run="2") == newer


def test_a_lease_that_is_released_can_be_taken_at_once(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    stopped = take_lease(table, user="a", run="1")
    stopped.release()
    with pytest.raises(WriterLeaseError, match="the query a was stopped, and with it ends its lease of table"):
        stopped.check()
    taken = take_lease(table, user="b", run="2")
    taken.check()
    for use in (stopped.check, stopped.renew):  # what is left of the stopped stream
        with pytest.raises(WriterLeaseError, match="the query b writes table"):
            use()
    assert [path.name for path in leases(table)] == [f"writer-{taken.number}"]


def test_a_run_that_has_released_its_lease_takes_another_one(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    first = take_lease(table, user="a", run="1")
    first.release()
    again = take_lease(table, user="a", run="1")
    assert again.number > first.number
    again.check()


def test_a_lease_that_another_writer_has_taken_is_not_released(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    older = take_lease(table, user="a", run="1")
    newer = take_lease(table, user="a", run="2")
    older.release()
    newer.check()


def test_of_several_at_once_one_takes_the_lease(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    start = threading.Barrier(8)
    taken: list[WriterLease] = []
    refused: list[WriterLeaseError] = []

    def take(user: str) -> None:
        start.wait()
        try:
            taken.append(take_lease(table, user=user, run="1"))
        except WriterLeaseError as error:
            refused.append(error)

    threads = [threading.Thread(target=take, args=(f"user-{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(taken), len(refused)) == (1, 7)
    taken[0].check()


def test_a_number_that_was_passed_long_ago_is_given_back(tmp_path: Path) -> None:
    """A slow writer makes the file of a number that others took, gave up and deleted since."""
    table = make_table(tmp_path)
    held = take_lease(table, user="a", run="1")
    newest = take_lease(table, user="a", run="2")
    assert (held.number, newest.number) == (1, 2)
    held_path = Path(table.path, "lakelog", "writer-1")
    held_path.write_bytes(held._to_json())  # its renewal, which came late
    newest.check()
    again = take_lease(table, user="a", run="3")
    assert again.number == 3
    assert [path.name for path in leases(table)] == ["writer-3"]


def test_a_lease_is_renewed_while_a_batch_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(tmp_path)
    held = take_lease(table, user="a", run="1")
    renewed = threading.Event()
    monkeypatch.setattr("lakelog.protocol.writing.writer_lease.RENEW_SECONDS", 0.001)
    monkeypatch.setattr(WriterLease, "renew", lambda _lease: renewed.set())
    with held.kept():
        assert renewed.wait(10)


def test_a_file_that_is_not_a_lease_is_named(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    take_lease(table, user="a", run="1")
    leases(table)[0].write_bytes(b"[]")
    with pytest.raises(CorruptDataError, match=r"writer-1 is not readable as the lease of a writer: .* delete it"):
        take_lease(table, user="a", run="1")

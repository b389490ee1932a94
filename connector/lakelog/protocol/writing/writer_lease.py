"""The lease of the only writer of a table with an eventual log: a second writer is refused while it lasts.

A lease is the JSON object {"user": string, "run": string} in `lakelog/writer-<number>`. It is taken by creating the
file with the next number, which only one of several writers can do; the highest number counts. The writer renews the
lease by rewriting the file: a lease that was not renewed for `LEASE_MILLIS` has ended. A new run of the same query
takes the lease over at once: the older run has ended, or stops at its next check. A stream that is stopped creates the
next file, with the member "state": "released": any writer may take the number after it at once, and remaining tasks of
the stream find their own number passed.

Files stay right with any number of writers, since snapshots use the offsets that they were written on. The lease is for
the log, where the records of two writers could be in another order than their snapshots.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event, Thread

from lakelog.common.clock import system_millis
from lakelog.common.errors import ConflictError, CorruptDataError, LakelogError, NotFoundError
from lakelog.common.file_names import numbers_of
from lakelog.common.json_fields import optional, parse_object, string
from lakelog.common.quoting import cause
from lakelog.filestore.io import FileEntry
from lakelog.filestore.metadata.tables import TableStore

logger = logging.getLogger("lakelog.protocol")

LEASE_MILLIS = 120_000
RENEW_SECONDS = 10.0
SPARE_MILLIS = 30_000  # that a lease in use must still have: longer than a record takes to the broker
_PREFIX = "writer-"
_RELEASED = "released"


class WriterLeaseError(ConflictError):
    """Another writer holds the table's lease, or this writer's lease has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterLease:
    """A lease that was taken. It is sent to the tasks."""

    table: TableStore
    number: int
    user: str
    run: str
    is_released: bool = False

    def check(self) -> None:
        """Raise WriterLeaseError unless the lease is held for longer than a record takes to the broker."""
        entries = _entries(self.table)
        newest = max(entries, default=0)
        if newest != self.number:
            raise WriterLeaseError(self._taken_text(newest))
        age_millis = system_millis() - entries[newest].modified_millis
        if age_millis > LEASE_MILLIS - SPARE_MILLIS:
            raise WriterLeaseError(
                f"{_path(self.table, self.number)} was renewed {age_millis} ms ago, and may be used for "
                f"{LEASE_MILLIS - SPARE_MILLIS} ms: its writer has ended or was asleep, or the clocks of this machine "
                "and of the file system differ; run the batch again"
            )

    def renew(self) -> None:
        """Hold the lease for `LEASE_MILLIS` from now on. Raises WriterLeaseError when another writer has taken it."""
        newest = max(_entries(self.table), default=0)
        if newest > self.number:
            raise WriterLeaseError(self._taken_text(newest))
        self.table.file_io.write_bytes(_path(self.table, self.number), self._to_json())

    def release(self) -> None:
        """End the lease: another query may take it at once. Call it only when no task of the writer runs.

        A lease that another writer has taken is not ended.
        """
        if max(_entries(self.table), default=0) != self.number:
            return
        released = replace(self, number=self.number + 1, is_released=True)
        if self.table.file_io.create_new(_path(self.table, released.number), released._to_json()):
            self.table.file_io.delete(_path(self.table, self.number))

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Renew the lease every `RENEW_SECONDS` while the body of a `with` statement runs."""
        is_over = Event()
        thread = Thread(target=self._keep, args=(is_over,), name="lakelog-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _keep(self, is_over: Event) -> None:
        while not is_over.wait(RENEW_SECONDS):
            try:
                self.renew()
            except WriterLeaseError as error:  # the tasks find it too, and stop
                logger.warning("%s", error)
                return
            except LakelogError as error:  # the store may answer next time; until then the lease ages
                logger.warning("%s is not renewed: %s", _path(self.table, self.number), error)

    def _taken_text(self, newest: int) -> str:
        holder = _find(self.table, newest)
        if holder is not None and holder.is_released and holder.user == self.user:
            return f"the query {self.user} was stopped, and with it ends its lease of table {self.table.name}"
        if holder is not None and holder.user == self.user:
            return (
                f"another run of the query {self.user} writes table {self.table.name} now, which has an eventual log "
                "and one writer; this run stops"
            )
        by = "another writer" if holder is None else f"the query {holder.user}"
        return (
            f"{by} writes table {self.table.name} now, which has an eventual log and one writer: this one was away for "
            "longer than its lease; stop one of the two"
        )

    def _to_json(self) -> bytes:
        state = {"state": _RELEASED} if self.is_released else {}
        return json.dumps({"user": self.user, "run": self.run} | state).encode()


def take_lease(table: TableStore, *, user: str, run: str) -> WriterLease:
    """Take the lease, or renew it if this run already holds it. `user` is the commit user, `run` a run of its query.

    Raises WriterLeaseError while another query holds it, CorruptDataError for a file that is not a lease.
    """
    while True:
        entries = _entries(table)
        newest = max(entries, default=0)
        holder = _find(table, newest) if newest else None
        if holder is not None and not holder.is_released:
            if (holder.user, holder.run) == (user, run):
                holder.renew()
                return holder
            if holder.user != user:
                _check_ended(holder, entries[newest])
        taken = WriterLease(table=table, number=newest + 1, user=user, run=run)
        if not table.file_io.create_new(_path(table, taken.number), taken._to_json()):
            continue
        if max(_entries(table), default=0) > taken.number:  # later numbers were taken since the listing
            table.file_io.delete(_path(table, taken.number))
            continue
        for older in entries:
            table.file_io.delete(_path(table, older))
        return taken


def _check_ended(holder: WriterLease, entry: FileEntry) -> None:
    left_millis = entry.modified_millis + LEASE_MILLIS - system_millis()
    if left_millis > 0:
        raise WriterLeaseError(
            f"the query {holder.user} writes table {holder.table.name}, which has an eventual log and one writer. Its "
            f"lease ends in {min(left_millis, LEASE_MILLIS) // 1000 + 1} s unless it is renewed: stop that query "
            "before, or write to a table with log.consistency=transactional, which takes several"
        )


def _entries(table: TableStore) -> dict[int, FileEntry]:
    """The files of leases, by number."""
    found = {entry.name: entry for entry in table.file_io.list_entries(_folder(table))}
    return {number: found[f"{_PREFIX}{number}"] for number in numbers_of(found, _PREFIX)}


def _find(table: TableStore, number: int) -> WriterLease | None:
    path = _path(table, number)
    try:
        fields = parse_object(table.file_io.read_bytes(path))
        return WriterLease(
            table=table,
            number=number,
            user=string(fields, "user"),
            run=string(fields, "run"),
            is_released=optional(string, fields, "state") == _RELEASED,
        )
    except NotFoundError:  # another writer has since taken it over
        return None
    except (KeyError, ValueError) as error:
        raise CorruptDataError(
            f"{path} is not readable as the lease of a writer: {cause(error)}; delete it when no query writes the table"
        ) from error


def _path(table: TableStore, number: int) -> str:
    return f"{_folder(table)}/{_PREFIX}{number}"


def _folder(table: TableStore) -> str:
    return f"{table.paths.own_root}/lakelog"

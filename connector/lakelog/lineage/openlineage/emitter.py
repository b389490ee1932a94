"""Reports to an OpenLineage receiver what a job has committed; the job neither waits for it nor fails by it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, RunState
from openlineage.client.facet_v2 import DatasetFacet

from lakelog.common.clock import system_millis
from lakelog.common.errors import InvalidRequestError, LakelogError
from lakelog.common.events import log_event
from lakelog.filestore.io import is_local
from lakelog.filestore.metadata.origins import CommittedBatch, TableSource, UnknownSource, batches_of
from lakelog.filestore.metadata.snapshots import CommitKind, Snapshot
from lakelog.filestore.schema import MAIN_BRANCH, TablePaths, TableSchema
from lakelog.lineage.columns.dataset_names import dataset_of_table, place_of
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.field_store import find_document
from lakelog.lineage.openlineage.datasets import input_of, output_of
from lakelog.lineage.openlineage.events import Engine, RunStatus, engine_of, event_of, run_id_of, status_after
from lakelog.lineage.openlineage.field_facets import column_lineage_of, lineage_facet_of
from lakelog.lineage.openlineage.redaction import redacted, secrets_of
from lakelog.warehouse.handle import TableHandle
from lakelog.warehouse.warehouse import Warehouse

logger = logging.getLogger("lakelog.lineage")

NAMESPACE_KEY = "OPENLINEAGE_NAMESPACE"
NAMESPACE = "lakelog"
MINUTES_BETWEEN = 10.0
CLOSE_SECONDS = 30.0
ERROR_MAX = 8000  # characters of a query's error: Spark's errors hold the traces of Python and Java
RETRY_MILLIS = 60_000  # after an event that the receiver did not accept


class OpenLineageEmitter:
    """A listener of a sink that sends RunEvents of a job's batches to the configured OpenLineage receiver.

    What is sent is read from the snapshots: a batch that did not commit is not sent. A separate thread sends the
    events, in order; a receiver that refuses or does not answer is logged, without secrets, and does not affect the
    job. START follows the first batch of a run; RUNNING follows a change of its sources, and otherwise is sent at most
    once in `minutes_between`; the end of the query, or `close`, sends COMPLETE or FAIL. A batch write is a run of its
    own, with START and COMPLETE.
    """

    def __init__(
        self,
        table: TableHandle,
        *,
        config: Mapping[str, object] | None = None,
        catalog: Warehouse | None = None,
        namespace: str | None = None,
        minutes_between: float | None = MINUTES_BETWEEN,
        engine: Engine | None = None,
        now_millis: Callable[[], int] = system_millis,
    ) -> None:
        """An emitter for the batches of one job in one table. Sends nothing yet.

        `config` is that of OpenLineage's client, such as `{"transport": {"type": "http", "url": ...}}`; the client adds
        its own variables and file (`OPENLINEAGE_URL`, `openlineage.yml`). `namespace` is that of the job, else the
        variable OPENLINEAGE_NAMESPACE, else `lakelog`. `catalog` opens the sources, whose columns are sent; the default
        is that of the table's folder. `minutes_between` None sends RUNNING only at a change of the sources. `engine` is
        what runs the job; the default for a stream is Spark. Raises InvalidRequestError for a configuration that the
        client refuses.
        """
        self._table = table
        self.store = table.store
        self._catalog = catalog or (Warehouse(table.warehouse) if is_local(table.path) else None)
        self._namespace = namespace or os.environ.get(NAMESPACE_KEY) or NAMESPACE
        self._millis_between = None if minutes_between is None else round(minutes_between * 60_000)
        self._engine = engine
        self._now_millis = now_millis
        self._client, self._secrets = _open_client(config)
        self._outbox = Outbox("lakelog-openlineage")
        self._status: RunStatus | None = None
        self._has_missed = False
        self._held_until = 0  # milliseconds since 1970: no event before this, since the last one was not accepted

    def notify_commit_complete(self, identifier: int, snapshot_id: int, kind: str) -> None:  # noqa: ARG002
        """Note a batch that is whole in a snapshot. Waits for nothing and raises nothing."""
        if not self._outbox.put(partial(self._safely, partial(self._follow, identifier, snapshot_id))):
            self._has_missed = True  # the rows of the run are no longer known

    def send(self, snapshot: Snapshot | None) -> None:
        """Send what a batch write has committed, given the snapshot that it returned; nothing for None.

        Waits for nothing and raises nothing; call `close` before the program ends.
        """
        if snapshot is not None:
            self.notify_commit_complete(snapshot.commit_identifier, snapshot.id, snapshot.commit_kind.value)

    def notify_end(self, error: BaseException | None) -> None:
        """Send COMPLETE, or FAIL for an error. Waits for half a minute at most, and raises nothing."""
        self.close(error)

    def close(self, error: BaseException | None = None, *, timeout: float = CLOSE_SECONDS) -> bool:
        """Send COMPLETE, or FAIL for an error, and wait until everything is sent; returns False after `timeout`.

        `timeout` is in seconds. Raises nothing. The emitter can be used again afterwards.
        """
        text = (
            None if error is None else redacted(f"{type(error).__name__}: {error}", self._secrets, length_max=ERROR_MAX)
        )
        self._outbox.put(partial(self._safely, partial(self._end, text)), is_last=True)
        is_sent = self._outbox.close(timeout)
        if not is_sent:
            log_event(logger, "openlineage-late", level=logging.WARNING, table=self._table.name)
        return is_sent

    def _safely(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  # of any client: no receiver may fail a job
            why = redacted(f"{type(error).__name__}: {error}", self._secrets)
            log_event(logger, "openlineage-failed", level=logging.WARNING, table=self._table.name, error=why)

    def _follow(self, identifier: int, snapshot_id: int) -> None:
        snapshot = self.store.snapshots.get(snapshot_id)
        batch = _batch_of(snapshot, identifier)
        if batch is None:
            return
        before = self._status
        if before is not None and before.run_id != run_id_of(batch, snapshot, self._table.uuid):
            self._safely(partial(self._send, RunState.ABORT, before, time_millis=self._now_millis()))
            self._has_missed = False
        rows = None if self._has_missed else _row_count(snapshot)
        status = self._status = status_after(before, batch, snapshot, sink_uuid=self._table.uuid, row_count=rows)
        due = status.due(self._millis_between)
        if due is not None and self._now_millis() >= self._held_until:
            self._held_until = self._now_millis() + RETRY_MILLIS
            self._send(due, status, time_millis=status.time_millis)
            self._held_until = 0
            self._status = status.told()
        if not status.is_streaming:
            self._end(None)

    def _end(self, error: str | None) -> None:
        status, self._status = self._status, None
        self._has_missed = False
        if status is not None:
            state = RunState.COMPLETE if error is None else RunState.FAIL
            self._send(state, status, time_millis=max(self._now_millis(), status.time_millis), error=error)

    def _send(self, state: RunState, status: RunStatus, *, time_millis: int, error: str | None = None) -> None:
        snapshot = self.store.snapshots.find(status.snapshot_id)
        schema = self.store.schemas.get(snapshot.schema_id) if snapshot is not None else self.store.schema
        self._client.emit(
            event_of(
                state,
                status,
                output_of(self.store, schema, status.snapshot_id, status.row_count, self._field_facets(status)),
                list(self._inputs_of(status)),
                time_millis=time_millis,
                namespace=self._namespace,
                engine=self._engine or engine_of(status),
                error=error,
            )
        )

    def _field_facets(self, status: RunStatus) -> dict[str, DatasetFacet]:
        """The lineage of the fields that the batch has named; without one that the table does not have any more."""
        record = status.batch.lineage
        documents = (find_document(self.store, checksum) for checksum in record.fields)
        document = next((one for one in documents if one is not None), None)
        if document is None:
            return {}
        places = {
            dataset_of_table(one.table, one.branch): Dataset(
                *place_of(TablePaths(one.path, one.branch or MAIN_BRANCH).own_root)
            )
            for one in record.sources
            if isinstance(one, TableSource) and one.path is not None
        }
        own = dataset_of_table(self.store.name)
        places[own] = _place(self.store.paths)

        def placed(dataset: Dataset) -> Dataset:
            return places.get(dataset, dataset)

        lineage = document.lineage
        facet = lineage_facet_of(lineage, placed, document.reads)
        return {"columnLineage": column_lineage_of(lineage, placed), "lineage": facet}

    def _inputs_of(self, status: RunStatus) -> Iterator[InputDataset]:
        """The sources, each once per version: a table that is joined with itself is one source."""
        seen: list[InputDataset] = []
        for source in status.batch.lineage.sources:
            if isinstance(source, UnknownSource):
                continue
            found = input_of(source, self._schema_of(source) if isinstance(source, TableSource) else None)
            if found not in seen:
                seen.append(found)
        yield from seen

    def _schema_of(self, source: TableSource) -> TableSchema | None:
        """The columns of a source that the catalog knows, at the snapshot that was read; else None."""
        if self._catalog is None:
            return None
        try:
            files = self._catalog.store(source.table)
        except LakelogError:
            return None
        if files.uuid != source.uuid:
            return None
        snapshot = None if source.end is None else files.snapshots.find(source.end.snapshot_id)
        return files.schema if snapshot is None else files.schemas.get(snapshot.schema_id)


def _place(paths: TablePaths) -> Dataset:
    return Dataset(*place_of(paths.own_root))


def _batch_of(snapshot: Snapshot, identifier: int) -> CommittedBatch | None:
    """The entry of a batch in its snapshot; if users share an identifier, the entry of the committing user."""
    found = [batch for batch in batches_of(snapshot) if batch.identifier == identifier]
    own = [batch for batch in found if batch.user == snapshot.commit_user]
    return next(iter(own or found), None)


def _row_count(snapshot: Snapshot) -> int | None:
    """The rows that a snapshot's batch has written; None if they cannot be distinguished from those of others."""
    is_alone = len(batches_of(snapshot)) == 1 and snapshot.commit_kind is CommitKind.APPEND
    return snapshot.delta_record_count if is_alone else None


def _open_client(config: Mapping[str, object] | None) -> tuple[OpenLineageClient, frozenset[str]]:
    """The client, and the secrets in its configuration. Raises InvalidRequestError for a refused configuration."""
    secrets = frozenset(secrets_of(config or {}))
    try:
        client = OpenLineageClient(config=None if config is None else dict(config))
        return client, secrets | frozenset(secrets_of(client.config.transport or {}))
    except Exception as error:  # noqa: BLE001  # of any transport
        raise InvalidRequestError(
            f"OpenLineage's client refuses its configuration: {redacted(f'{type(error).__name__}: {error}', secrets)}; "
            "see the configuration of its transports"
        ) from None  # the cause may quote a secret


WAITING_MAX = 1000  # pieces of work; a receiver that does not answer delays the first of them


class Outbox:
    """Pieces of work, done in the order in which they are handed over. The thread starts with the first piece.

    The thread does not keep the process alive. A piece of work must not raise: that would end the thread.
    """

    def __init__(self, name: str) -> None:
        """Start nothing yet."""
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = Lock()
        self._thread: Thread | None = None

    def put(self, work: Callable[[], None], *, is_last: bool = False) -> bool:
        """Hand work over; returns False when too much is waiting, unless the work is the last."""
        if not is_last and self._work.qsize() >= WAITING_MAX:
            return False
        with self._lock:
            self._work.put(work)
            if self._thread is None:
                self._thread = Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        return True

    def close(self, timeout: float) -> bool:
        """End the thread once all work is done; returns False if it is not done after `timeout` seconds."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is None:
                return True
            self._work.put(None)
        thread.join(timeout)
        return not thread.is_alive()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()

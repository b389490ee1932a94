"""RunEvents of the batches of a job: which event is due after a batch, and what it holds.

Each event holds everything that is known, so that it can be read without the others: job, run, inputs and outputs with
their versions. START follows the first batch that committed. RUNNING follows a batch whose sources are not those of the
last event; otherwise it is due only from time to time, since receivers keep a version of the job for each event.
"""

from __future__ import annotations

import uuid
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import RunFacet, error_message_run, job_type_job, processing_engine_run

from lakelog.common.timestamps import utc_of
from lakelog.filestore.metadata.origins import CommittedBatch, ForeignSource, Source, TableSource, UnknownSource
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.lineage.openlineage.producer import INTEGRATION, LAKELOG, PRODUCER


@dataclass(frozen=True, slots=True)
class Engine:
    """What runs the job: `spark` and its version."""

    name: str = "lakelog"
    version: str = LAKELOG


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """A run at its newest batch. `row_count` is the number of rows that it has written so far; None means unknown."""

    run_id: str
    batch: CommittedBatch
    snapshot_id: int
    time_millis: int
    row_count: int | None
    told_millis: int | None = None  # the time of the batch of the last event; None before START
    told_sources: frozenset[Hashable] = frozenset()

    @property
    def sources(self) -> frozenset[Hashable]:
        """What the batch reads, without versions, and the lineage of its fields."""
        lineage = self.batch.lineage
        return frozenset((*map(_identity, lineage.sources), *lineage.fields))

    @property
    def is_streaming(self) -> bool:
        """Whether the run continues after its batch."""
        return self.batch.lineage.batch_id is not None

    def due(self, millis_between: int | None) -> RunState | None:
        """The event that is due, if any. `millis_between` None means that without a change no event is due."""
        if self.told_millis is None:
            return RunState.START
        is_changed = self.sources != self.told_sources
        is_long_ago = millis_between is not None and self.time_millis - self.told_millis >= millis_between
        return RunState.RUNNING if is_changed or is_long_ago else None

    def told(self) -> RunStatus:
        """The status after an event."""
        return replace(self, told_millis=self.time_millis, told_sources=self.sources)


def status_after(
    before: RunStatus | None, batch: CommittedBatch, snapshot: Snapshot, *, sink_uuid: str, row_count: int | None
) -> RunStatus:
    """The status of a run after a batch; `before` is the earlier status, of this run or of another one."""
    run_id = run_id_of(batch, snapshot, sink_uuid)
    status = RunStatus(
        run_id=run_id, batch=batch, snapshot_id=snapshot.id, time_millis=snapshot.time_millis, row_count=row_count
    )
    if before is None or before.run_id != run_id:
        return status
    is_known = before.row_count is not None and row_count is not None
    return replace(
        status,
        row_count=(before.row_count or 0) + (row_count or 0) if is_known else None,
        told_millis=before.told_millis,
        told_sources=before.told_sources,
    )


def engine_of(status: RunStatus) -> Engine:
    """What runs a job whose engine is not given: Spark if the job is a stream."""
    if not status.is_streaming:
        return Engine()
    try:
        return Engine("spark", version("pyspark"))
    except PackageNotFoundError:
        return Engine()


def run_id_of(batch: CommittedBatch, snapshot: Snapshot, sink_uuid: str) -> str:
    """The run's UUID: Spark's id of the run; for a batch write, a UUID of its own that is always the same."""
    given = batch.lineage.run_id
    if batch.lineage.batch_id is not None and given is not None:
        try:
            return str(uuid.UUID(given))
        except ValueError:
            return str(uuid.uuid5(uuid.NAMESPACE_OID, given))
    return str(
        uuid.uuid5(uuid.NAMESPACE_OID, f"{sink_uuid}/{snapshot.id}/{snapshot.uuid}/{batch.user}/{batch.identifier}")
    )


def event_of(
    state: RunState,
    status: RunStatus,
    output: OutputDataset,
    inputs: Sequence[InputDataset],
    *,
    time_millis: int,
    namespace: str,
    engine: Engine,
    error: str | None = None,
) -> RunEvent:
    """The event. `error` is the error of a failed run, without secrets."""
    lineage = status.batch.lineage
    engine_facet = processing_engine_run.ProcessingEngineRunFacet(
        name=engine.name, version=engine.version, openlineageAdapterVersion=LAKELOG, producer=PRODUCER
    )
    run_facets: dict[str, RunFacet] = {"processing_engine": engine_facet}
    if error is not None:
        run_facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
            message=error, programmingLanguage="PYTHON", producer=PRODUCER
        )
    job_type = job_type_job.JobTypeJobFacet(
        processingType="STREAMING" if status.is_streaming else "BATCH",
        integration=INTEGRATION,
        jobType=None if lineage.operation is None else lineage.operation.upper(),
        producer=PRODUCER,
    )
    name = lineage.job or lineage.query_id or status.batch.user
    return RunEvent(
        eventType=state,
        eventTime=utc_of(time_millis, separator="T", suffix="Z"),
        producer=PRODUCER,
        run=Run(runId=status.run_id, facets=run_facets),
        job=Job(namespace=namespace, name=name, facets={"jobType": job_type}),
        inputs=list(inputs),
        outputs=[output],
    )


def _identity(source: Source) -> Hashable:
    match source:
        case TableSource():
            return source.uuid, source.branch, source.mode
        case ForeignSource():
            return source.format, source.name
        case UnknownSource():
            return source.why

"""Jobs that were ended or deleted, and up to which commit. What a job commits afterwards counts again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakelog.warehouse.lineage_tables import JOB_STATUS
from lakelog.warehouse.system_database import SystemDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """The last commits before a job was ended and deleted, in milliseconds since 1970; None if it was not."""

    ended_millis: int | None = None
    deleted_millis: int | None = None

    def covers_ended(self, commit_millis: int) -> bool:
        """Whether a commit was before the end or the deletion of the job."""
        is_ended = self.ended_millis is not None and commit_millis <= self.ended_millis
        return is_ended or self.covers_deleted(commit_millis)

    def covers_deleted(self, commit_millis: int) -> bool:
        """Whether a commit was before the deletion of the job."""
        return self.deleted_millis is not None and commit_millis <= self.deleted_millis


def job_statuses(database: SystemDatabase) -> Mapping[str, JobStatus]:
    """The jobs that were ended or deleted."""
    return {
        row["job"]: JobStatus(ended_millis=row["ended_time"], deleted_millis=row["deleted_time"])
        for row in database.found(JOB_STATUS)
    }


def put_status(database: SystemDatabase, job: str, status: JobStatus) -> None:
    """Record that a job was ended or deleted."""
    row = {"job": job, "ended_time": status.ended_millis, "deleted_time": status.deleted_millis}
    database.change(JOB_STATUS, upserts=[row])

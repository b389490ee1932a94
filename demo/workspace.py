"""The demo's folder and what lies where in it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

FLIGHTS = "db.flights"
FLIGHTS_BY_STATUS = "db.flights_by_status"
WRITER = "writer"
READER = "reader"

_MARK = ".lakelog-demo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """Paths under `root`. A job keeps its checkpoint over its runs; each run has logs of its own."""

    root: Path

    @property
    def lake(self) -> Path:
        """The tables, and the broker's data."""
        return self.root / "lake"

    @property
    def changes(self) -> Path:
        """The change files."""
        return self.root / "changes"

    @property
    def spark_scratch(self) -> Path:
        """Spark's temporary files, which a killed JVM leaves behind."""
        return self.root / "spark"

    @property
    def log_end(self) -> Path:
        """Written when all changes are in the table: the JSON of the log offsets at which the reader is done."""
        return self.root / "log-end.json"

    def checkpoint(self, job: str) -> Path:
        """The checkpoint of a job's query."""
        return self.root / "checkpoints" / job

    def steps(self, run: str) -> Path:
        """The protocol steps that a run took, one JSON line each."""
        return self.root / "logs" / f"{run}-steps.jsonl"

    def progress(self, run: str) -> Path:
        """The micro-batches that a run finished, one JSON line each."""
        return self.root / "logs" / f"{run}-batches.jsonl"

    def output(self, run: str) -> Path:
        """What a run printed."""
        return self.root / "logs" / f"{run}.log"

    def check_is_free(self) -> None:
        """Raise FileExistsError for a folder that holds other things than a demo."""
        if self.root.exists() and any(self.root.iterdir()) and not (self.root / _MARK).exists():
            raise FileExistsError(f"{self.root} holds other things than a demo; name another folder with --folder")

    def create(self) -> None:
        """Make the folder anew. Raises FileExistsError for one that is not the demo's."""
        self.check_is_free()
        self.delete()
        (self.root / "logs").mkdir(parents=True)
        (self.root / _MARK).touch()

    def delete(self) -> None:
        """Delete the folder and all that is in it."""
        shutil.rmtree(self.root, ignore_errors=True)

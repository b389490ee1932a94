"""What the demo shows while it runs: bars on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

LINE_EVERY_SECONDS = 5.0


class Display(AbstractContextManager["Display"]):
    """How far the two jobs are. `print` lines stay above the bars."""

    def __init__(self, console: Console, *, change_count: int, file_count: int) -> None:
        self._console = console
        self._file_count = file_count
        self._started_at = time.monotonic()
        self._line_at = self._started_at
        self._last_line = ""
        self._bars = Progress(
            TextColumn("  {task.description:<8}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[text]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            refresh_per_second=4,
            disable=not console.is_terminal,
        )
        self._writer = self._bars.add_task("writer", total=change_count, text="Spark starts")
        self._reader = self._bars.add_task("reader", total=None, text="waits for the first snapshots")

    def show(self, *, batches_written: int, changes_written: int, rows_read: int, batches_read: int) -> None:
        """Bring what is shown up to date."""
        written = f"batch {batches_written} of {self._file_count}, {changes_written:,} changes"
        read = f"{rows_read:,} rows in {batches_read} micro-batches" if batches_read else "nothing yet"
        self._bars.update(self._writer, completed=changes_written, text=written)
        self._bars.update(self._reader, text=read)
        line = f"writer: {written}; reader: {read}"
        now = time.monotonic()
        if not self._console.is_terminal and now - self._line_at > LINE_EVERY_SECONDS and line != self._last_line:
            self._line_at, self._last_line = now, line
            self.say(line)

    def say(self, line: str) -> None:
        """Print a line with the seconds since the start; it stays."""
        self._console.print(f"  {time.monotonic() - self._started_at:4.0f} s  {line}", highlight=False)

    def __enter__(self) -> Display:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

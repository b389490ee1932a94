"""The demo's command line.

Streams the flights of 2013 as a million changes into a lakelog table, reads the table while it is written, kills the
writer in the middle of a batch, and checks every row at the end. Exits with 1 when anything does not match.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from demo.changes import ChangeStream, make_changes, write_change_files
from demo.display import Display
from demo.flights import read_flights
from demo.kill import STEPS_OF_BATCHES, explain_kill
from demo.latency import Offsets
from demo.play import JobFailedError, KillPlan, Play, Played
from demo.report import print_checks, print_figures, print_introduction, print_kill, print_snapshots
from demo.results import check_everything, measure_latency
from demo.tables import BUCKET_COUNT, create_tables, list_snapshots
from demo.workspace import FLIGHTS, Workspace
from lakelog.catalog import Catalog
from lakelog.common.errors import LakelogError
from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.protocol.state.steps import Step

FILES = 40
FILES_SMALL = 12
WIDTH_OF_FILES = 120
BOOTSTRAP_VARIABLE = "LAKELOG_KAFKA_BOOTSTRAP_SERVERS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the command line asked for."""

    folder: Path
    is_small: bool
    is_kept: bool
    kill_at: Step


def parse(arguments: Sequence[str] | None) -> Settings:
    """Read the command line; exits with a usage message when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        description="Stream a million changes into a table, read it meanwhile, kill the writer, check every row.",
    )
    parser.add_argument("--small", action="store_true", help="only January: about a minute")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the tables and logs")
    parser.add_argument(
        "--folder", type=Path, default=Path(".demo"), help="the folder of the data, created again; default: %(default)s"
    )
    parser.add_argument(
        "--kill-at",
        choices=[step.value for step in STEPS_OF_BATCHES],
        default=Step.AFTER_COMMIT.value,
        metavar="STEP",
        help="kill the writer when the first bucket comes to this step, one of: %(choices)s; default: %(default)s",
    )
    given = parser.parse_args(arguments)
    return Settings(
        folder=given.folder.absolute(), is_small=given.small, is_kept=given.keep, kill_at=Step(given.kill_at)
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; gives the exit code."""
    settings = parse(arguments)
    console = _make_console()
    signal.signal(signal.SIGTERM, _stop)  # as Ctrl-C
    os.environ.pop(BOOTSTRAP_VARIABLE, None)  # the demo brings a broker of its own
    started_at = time.monotonic()
    workspace = Workspace(root=settings.folder)
    try:
        workspace.check_is_free()
    except FileExistsError as error:
        console.print(str(error), markup=False, soft_wrap=True)
        return 2
    try:
        EmbeddedBroker(workspace.lake).stop()  # of a demo that was killed
        workspace.create()
        has_passed = run(settings, workspace, console)
    except (JobFailedError, LakelogError, OSError) as error:
        console.print(f"\nThe demo failed: {error}", style="bold red", markup=False, soft_wrap=True)
        has_passed = False
    except KeyboardInterrupt:
        console.print("\nStopped.")
        if not settings.is_kept:
            workspace.delete()
        return 130
    seconds = time.monotonic() - started_at
    if has_passed:
        console.print(f"\n[bold green]Everything matches.[/] {seconds:.0f} s.")
    else:
        console.print(f"\n[bold red]FAILED[/] after {seconds:.0f} s; the jobs' logs are in {workspace.root / 'logs'}")
    if settings.is_kept:
        console.print(
            f"Kept: {workspace.root}; try  scripts/lakelog table cat {workspace.lake}/db.db/flights_by_status"
        )
    elif has_passed:
        workspace.delete()
    return 0 if has_passed else 1


def _make_console() -> Console:
    console = Console(highlight=False)
    # A file or a pipe has no width of its own; 80 columns would cut the tables.
    return console if console.is_terminal else Console(highlight=False, width=WIDTH_OF_FILES)


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def run(settings: Settings, workspace: Workspace, console: Console) -> bool:
    """Play and report; True when every check passed. The jobs and the broker are stopped when it comes back."""
    flights = read_flights(months=1 if settings.is_small else 12)
    file_count = FILES_SMALL if settings.is_small else FILES
    files = write_change_files(make_changes(flights), workspace.changes, file_count=file_count)
    stream = ChangeStream(flights=flights, files=files)
    print_introduction(console, stream)
    try:
        catalog = Catalog(str(workspace.lake))
        create_tables(catalog)
        played = _play(settings, workspace, console, catalog, stream)
        return _report(console, catalog, stream, played)
    finally:
        EmbeddedBroker(workspace.lake).stop()


def _play(settings: Settings, workspace: Workspace, console: Console, catalog: Catalog, stream: ChangeStream) -> Played:
    plan = KillPlan(step=settings.kill_at, earliest=len(stream.files) // 3, latest=len(stream.files) * 2 // 3)
    display = Display(console, change_count=stream.change_count, file_count=len(stream.files))

    def log_end() -> Offsets:
        return list_snapshots(catalog.load_table(FLIGHTS))[-1].offsets

    return Play(workspace=workspace, files=stream.files, plan=plan, display=display, log_end=log_end).run()


def _report(console: Console, catalog: Catalog, stream: ChangeStream, played: Played) -> bool:
    snapshots = list_snapshots(catalog.load_table(FLIGHTS))
    killed = explain_kill(played.steps_before, played.steps_after, bucket_count=BUCKET_COUNT)
    print_snapshots(console, snapshots)
    print_kill(console, killed, played.struck_count)
    print_figures(
        console,
        batches=played.written,
        first_of_starts=played.first_of_starts,
        files=stream.files,
        latency=measure_latency(played, snapshots),
    )
    checks = check_everything(catalog, stream, snapshots, killed_batch=killed.identifier)
    print_checks(console, checks)
    return all(check.has_passed for check in checks)


if __name__ == "__main__":
    sys.exit(main())

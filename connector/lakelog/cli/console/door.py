"""The output of the command line: everything that it prints to standard output or standard error passes here.

Tables, topics and files hold strings from others: column names, comments, users, cells. A terminal obeys control
sequences in them, and direction marks change the order in which they are shown. This module escapes what does not
print: a line stays one line, and a line of JSON the same JSON. Only this module and `output`, which uses rich to draw
what is escaped here, know the streams; a test checks that. The output of other libraries passes here too: tracebacks,
warnings, log records, wrong arguments.
"""

from __future__ import annotations

import logging
import os
import select
import stat
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO

import typer

from lakelog.common.events import HarmlessFormatter
from lakelog.common.quoting import escaped

CLOSED_PIPE_CODE = 141  # 128 plus the number of SIGPIPE
STOPPED_CODE = 130  # 128 plus the number of SIGINT


def print_lines(lines: Iterable[str], *, kept: str = "") -> None:
    """Write lines to standard output, unbuffered; `kept` are characters that are not escaped.

    Ends the program when the reader of a pipe has ended.
    """
    write_drawn(escaped(line, kept=kept) for line in lines)


def write_drawn(lines: Iterable[str]) -> None:
    """Like `print_lines`, for lines that `output` has drawn from escaped strings: it added the control sequences."""
    try:
        sys.stdout.writelines(f"{line}\n" for line in lines)
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter would write the buffer again when it exits, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(CLOSED_PIPE_CODE) from None


def write_error(line: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"{escaped(line)}\n")


def ask(question: str) -> None:
    """Ask a question; any answer except yes ends the program."""
    typer.confirm(escaped(question), abort=True)


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def is_error_terminal() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr.isatty()


def is_pipe_closed() -> bool:
    """Whether standard output is a pipe without a reader."""
    try:
        descriptor = sys.stdout.fileno()
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return False
    except (OSError, ValueError):  # not a file, as in a test
        return False
    watched = select.poll()
    watched.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in watched.poll(0))


def write_trace(error: Exception) -> None:
    """Write the trace of an error that is a bug to standard error."""
    for line in "".join(traceback.format_exception(error)).split("\n"):
        write_error(line)


def write_wrong_arguments(error: Exception) -> int | None:
    """Write typer's error about the arguments to standard error; returns its exit code, None for other errors.

    The arguments that it quotes may be names from others, for example when a shell expands them.
    """
    message, code = getattr(error, "message", None), getattr(error, "exit_code", None)
    if not (isinstance(message, str) and isinstance(code, int) and hasattr(error, "format_message")):
        return None
    from typer.rich_utils import rich_format_error

    error.message = escaped(message, kept="\n")  # type: ignore[attr-defined]  # its class differs between typers
    rich_format_error(error)  # type: ignore[arg-type]  # likewise
    return code


@contextmanager
def foreign_lines() -> Iterator[None]:
    """Inside this block, print through this module the warnings and log records that no other handler takes."""
    handler = _ErrorHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(HarmlessFormatter())
    before = logging.lastResort
    logging.lastResort = handler
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _write_warning
            yield
    finally:
        logging.lastResort = before


class _ErrorHandler(logging.StreamHandler[TextIO]):
    """Writes to the standard error of the time when a record arrives."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def _write_warning(  # noqa: PLR0917  # the signature is Python's
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,  # noqa: ARG001  # likewise
    line: str | None = None,
) -> None:
    for one in warnings.formatwarning(message, category, filename, lineno, line).rstrip("\n").split("\n"):
        write_error(one)

"""How a statement is ended from another thread, while it is parsed and planned as well as while DuckDB runs."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any  # Any: duckdb is an optional extra without types here

from lakelog.common.errors import InvalidRequestError

# Sent again, since Python drops an exception that is raised in a finalizer or a callback of the garbage collector.
_AGAIN_S = 0.2


class _Interrupted(BaseException):
    """Raised in the thread of a statement: nothing on the way takes it for an error of its own."""


@dataclass(eq=False)
class Interrupts:
    """The interrupts of a connection, whose statements run one after the other."""

    _lock: Any = field(default_factory=threading.RLock)  # the handler of a signal may ask in the thread that holds it
    _engines: list[Any] = field(default_factory=list)
    _planner: int | None = None  # the thread that plans
    _statements: int = 0  # how many have begun
    _is_running: bool = False
    _is_asked: bool = False
    _is_sent: bool = False

    def ask(self) -> None:
        """End the statement that runs, if one does."""
        with self._lock:
            self._is_asked = self._is_running
            for engine in self._engines:
                engine.interrupt()
            if self._planner is not None and not self._is_sent:
                self._is_sent = True
                threading.Thread(target=self._ask_again, args=(self._statements,), daemon=True).start()
                _raise_in(self._planner, _Interrupted)

    def _ask_again(self, statement: int) -> None:
        """Send the exception until the statement plans no longer."""
        while True:
            time.sleep(_AGAIN_S)
            with self._lock:
                if self._planner is None or self._statements != statement:
                    return
                _raise_in(self._planner, _Interrupted)

    @contextmanager
    def statement(self) -> Iterator[None]:
        """A statement: what is asked before it is forgotten."""
        with self._lock:
            self._statements += 1
            self._is_running, self._is_asked, self._is_sent = True, False, False
        try:
            yield
        finally:
            with self._lock:
                self._is_running, self._is_asked, self._planner = False, False, None

    @contextmanager
    def planning(self) -> Iterator[None]:
        """Pure Python, which an interrupt ends wherever it is. Raises InvalidRequestError then."""
        outer = self._planner
        try:
            with self._lock:
                self._check()
                self._planner = threading.get_ident()
            try:
                yield
            finally:
                with self._lock:
                    self._planner = outer
                    if self._is_sent:
                        _raise_in(threading.get_ident(), None)  # if it is still on its way
                        self._check()
        except _Interrupted:
            raise _error() from None

    @contextmanager
    def engine(self, engine: Any) -> Iterator[None]:
        """Work of DuckDB, which an interrupt ends. Raises InvalidRequestError if one came before."""
        with self._lock:
            self._check()
            self._engines.append(engine)
        try:
            yield
        finally:
            with self._lock, suppress(ValueError):
                self._engines.remove(engine)

    def _check(self) -> None:
        if self._is_asked:
            raise _error()


def _error() -> InvalidRequestError:
    return InvalidRequestError("the statement was interrupted")


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Raise in a thread when it runs Python code next; without a kind, take that back."""
    given = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), given)

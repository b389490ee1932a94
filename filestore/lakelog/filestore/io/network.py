"""Stores behind a network: calls that do not need each other's answers are made at once, by threads.

Each call waits for an answer, and several at once wait as long as one. Calls of other stores are made one after the
other, in the given order: there a thread would take longer than the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.filestore.io.fileio import FileIO

Item = TypeVar("Item")
Result = TypeVar("Result")
First = TypeVar("First")
Second = TypeVar("Second")


@runtime_checkable
class NetworkStore(Protocol):
    """The files of a store behind a network."""

    @property
    def calls_at_once(self) -> int:
        """The number of calls that are made at once; 1 for a store whose calls are made one after the other."""
        ...

    def open_known(self, path: str, size_bytes: int) -> pa.NativeFile:
        """Open a file of a known size for random reads, without a request: the first read may raise NotFoundError."""
        ...


def calls_at_once(file_io: FileIO) -> int:
    """The number of calls to make at once; 1 if they are made one after the other."""
    return file_io.calls_at_once if isinstance(file_io, NetworkStore) else 1


def map_at_once(file_io: FileIO, call: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """What `call`, which asks the store, returns for each item, in their order.

    Raises the error of the first item that failed: at once in a store of one call at a time, whose later calls are not
    made; in others once all calls have ended.
    """
    threads = min(calls_at_once(file_io), len(items))
    if threads <= 1:
        return [call(item) for item in items]
    with ThreadPoolExecutor(threads, "lakelog-store") as pool:
        return list(pool.map(call, items))


def both(file_io: FileIO, first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """What two calls that ask the store return. Raises as `map_at_once`."""
    if calls_at_once(file_io) <= 1:
        return first(), second()
    with ThreadPoolExecutor(1, "lakelog-store") as pool:
        beside = pool.submit(second)
        found = first()
        return found, beside.result()


def open_known(file_io: FileIO, path: str, size_bytes: int) -> pa.NativeFile:
    """Open a file whose size is known, without a request if the store is behind a network.

    In other stores a missing file raises NotFoundError now, else at the first read.
    """
    if isinstance(file_io, NetworkStore) and file_io.calls_at_once > 1:
        return file_io.open_known(path, size_bytes)
    return file_io.open_input(path)

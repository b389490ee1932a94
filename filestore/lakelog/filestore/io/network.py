"""Stores behind a network: calls that do not need each other's answers are made at once, by threads.

Each call waits for an answer, and several at once wait as long as one. Calls of other stores are made one after the
other, in the given order: there a thread would take longer than the call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, cast  # Any: of results that nobody reads

from lakelog.common.errors import CorruptDataError
from lakelog.common.threads import begun

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.filestore.io.fileio import FileIO

Item = TypeVar("Item")
Result = TypeVar("Result")
CreateAll = Callable[[Sequence[tuple[str, bytes]], Sequence[str]], None]
First = TypeVar("First")
Second = TypeVar("Second")


class NetworkStore(Protocol):
    """The files of a store behind a network."""

    @property
    def calls_at_once(self) -> int:
        """The number of calls that are made at once; 1 for a store whose calls are made one after the other."""
        ...

    def open_known(self, path: str, size_bytes: int) -> pa.NativeFile:
        """Open a file of a known size for random reads, without a request: the first read may raise NotFoundError."""
        ...

    def fetch_end(self, path: str, *, start: int, size_bytes: int) -> None:
        """Fetch the bytes of a file from `start` on, for the next `open_known`. Raises NotFoundError."""
        ...


def calls_at_once(file_io: FileIO) -> int:
    """The number of calls to make at once; 1 if they are made one after the other."""
    count: int = getattr(file_io, "calls_at_once", 1)  # `isinstance` of a protocol takes 20 times as long
    return count


def _network(file_io: FileIO) -> NetworkStore | None:
    """A store behind a network as such; None for another one."""
    return cast(NetworkStore, file_io) if calls_at_once(file_io) > 1 else None  # only these have that attribute


def map_at_once(file_io: FileIO, call: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """What `call`, which asks the store, returns for each item, in their order.

    Raises the error of the first item that failed: at once in a store of one call at a time, whose later calls are not
    made; in others once all calls have ended.
    """
    threads = min(calls_at_once(file_io), len(items))
    if threads <= 1:
        return [call(item) for item in items]
    with ThreadPoolExecutor(threads, "lakelog-store") as pool:
        results = [begun(pool, partial(call, item)) for item in items]
        return [result.result() for result in results]


def both(file_io: FileIO, first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """What two calls that ask the store return. Raises as `map_at_once`."""
    if calls_at_once(file_io) <= 1:
        return first(), second()
    with ThreadPoolExecutor(1, "lakelog-store") as pool:
        beside = begun(pool, second)
        found = first()
        return found, beside.result()


def fetched_ahead(
    file_io: FileIO, items: Sequence[Item], fetch: Callable[[Item], object], *, is_held: Callable[[Item], bool]
) -> Iterator[Item]:
    """The items in their order; in a store behind a network `fetch` is called ahead, for several items at once.

    It is to put what it has fetched into a cache, and is called for items for which `is_held` is False. Raises as
    `map_at_once`.
    """
    count = calls_at_once(file_io)
    for start in range(0, len(items), count):
        window = items[start : start + count]
        missing = [item for item in window if not is_held(item)] if count > 1 else []
        if len(missing) > 1:
            map_at_once(file_io, fetch, missing)
        yield from window


class CallsBeside:
    """Calls that ask the store beside the caller's own work; a store of one call at a time makes each at once.

    A context manager, which ends when all calls have ended.
    """

    def __init__(self, file_io: FileIO) -> None:
        """Begin without calls."""
        self._at_once = calls_at_once(file_io)
        self._pool = ThreadPoolExecutor(self._at_once, "lakelog-store") if self._at_once > 1 else None
        self._begun: deque[Future[Any]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def begin(self, call: Callable[[], Result]) -> Callable[[], Result]:
        """Begin a call, and return the function that waits for its result, or raises its error.

        Waits as long as many others have not ended.
        """
        if self._pool is None:
            return self.done(call)
        while len(self._begun) >= self._at_once:
            wait([self._begun.popleft()])
        future = begun(self._pool, call)
        self._begun.append(future)
        return future.result

    @staticmethod
    def done(call: Callable[[], Result]) -> Callable[[], Result]:
        """Make a call now; the function that returns its result."""
        result = call()
        return lambda: result


def open_known(file_io: FileIO, path: str, size_bytes: int) -> pa.NativeFile:
    """Open a file whose size is known, without a request if the store is behind a network.

    In other stores a missing file raises NotFoundError now, else at the first read.
    """
    store = _network(file_io)
    return file_io.open_input(path) if store is None else store.open_known(path, size_bytes)


def fetch_ends(file_io: FileIO, ends: Sequence[tuple[str, int, int]]) -> None:
    """Fetch the ends of files that are about to be opened by `open_known`, at once.

    Each is given by its path, its first byte and the size of its file. Does nothing in stores of one call at a time.
    Raises NotFoundError.
    """
    store = _network(file_io)
    if store is not None and len(ends) > 1:
        map_at_once(file_io, lambda end: store.fetch_end(end[0], start=end[1], size_bytes=end[2]), ends)


def fetch_end(file_io: FileIO, path: str, *, start: int, size_bytes: int) -> None:
    """Fetch the bytes of a file from `start` on, for the next `open_known`, in a store behind a network."""
    store = _network(file_io)
    if store is not None:
        store.fetch_end(path, start=start, size_bytes=size_bytes)


def create_all(file_io: FileIO, files: Sequence[tuple[str, bytes]], *, unsynced: Sequence[str] = ()) -> None:
    """Create files with new names, durably, and make the files at the paths `unsynced` durable.

    Nothing that others read names any of them yet. A store whose disk is slower than a thread does all at once, and may
    leave a part of a file after a crash. Raises CorruptDataError if a file exists.
    """
    create: CreateAll | None = getattr(file_io, "create_all", None)
    if create is not None:
        create(files, unsynced)
        return
    for path in unsynced:
        file_io.sync(path)
    created = map_at_once(file_io, lambda file: file_io.create_new(*file), files)
    for (path, _), is_new in zip(files, created, strict=True):
        if not is_new:
            raise name_taken(path)


def name_taken(path: str) -> CorruptDataError:
    """The error for an existing file in place of one with a new name."""
    return CorruptDataError(f"{path} exists already, though its name has a new uuid")

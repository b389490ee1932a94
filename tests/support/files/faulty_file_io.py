"""A FileIO that dies or fails at the call that a test names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from lakelog.common.errors import UnavailableError
from lakelog.filestore.io.fileio import FileEntry, FileIO, OutputFile

Result = TypeVar("Result")


class InjectedCrash(BaseException):
    """The process is dead: no handler of ours may catch this."""


@dataclass
class FaultyFileIO:
    """Counts the calls that go through it. At call `fails_at` it dies, or fails once when `is_outage`.

    `after_effect` lets the call have its effect first. A dead process makes no calls any more.
    """

    inner: FileIO
    fails_at: int | None = None
    after_effect: bool = False
    is_outage: bool = False
    calls: list[str] = field(default_factory=list)
    is_dead: bool = False

    @property
    def has_failed(self) -> bool:
        """True once the call was reached."""
        return self.fails_at is not None and len(self.calls) >= self.fails_at

    def _call(self, name: str, act: Callable[[], Result]) -> Result:
        if self.is_dead:
            raise InjectedCrash(f"{name} after death")
        self.calls.append(name)
        if len(self.calls) != self.fails_at:
            return act()
        if self.after_effect:
            act()
        if self.is_outage:
            raise UnavailableError(f"{name}: the store does not answer")
        self.is_dead = True
        raise InjectedCrash(name)

    def read_bytes(self, path: str) -> bytes:
        return self._call("read_bytes", lambda: self.inner.read_bytes(path))

    def write_bytes(self, path: str, data: bytes) -> None:
        self._call("write_bytes", lambda: self.inner.write_bytes(path, data))

    def create_new(self, path: str, data: bytes) -> bool:
        return self._call("create_new", lambda: self.inner.create_new(path, data))

    def exists(self, path: str) -> bool:
        return self._call("exists", lambda: self.inner.exists(path))

    def size(self, path: str) -> int:
        return self._call("size", lambda: self.inner.size(path))

    def list_names(self, directory: str) -> list[str]:
        return self._call("list_names", lambda: self.inner.list_names(directory))

    def list_entries(self, directory: str) -> list[FileEntry]:
        return self._call("list_entries", lambda: self.inner.list_entries(directory))

    def delete_empty_dir(self, directory: str) -> bool:
        return self._call("delete_empty_dir", lambda: self.inner.delete_empty_dir(directory))

    def delete(self, path: str) -> None:
        self._call("delete", lambda: self.inner.delete(path))

    def delete_tree(self, directory: str, *, last: Sequence[str] = ()) -> None:
        self._call("delete_tree", lambda: self.inner.delete_tree(directory, last=last))

    def make_dirs(self, directory: str) -> None:
        self._call("make_dirs", lambda: self.inner.make_dirs(directory))

    def open_input(self, path: str) -> pa.NativeFile:
        return self._call("open_input", lambda: self.inner.open_input(path))

    def open_output(self, path: str) -> OutputFile:
        return self._call("open_output", lambda: self.inner.open_output(path))

    def sync(self, path: str) -> None:
        self._call("sync", lambda: self.inner.sync(path))

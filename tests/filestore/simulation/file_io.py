"""The FileIO of a simulated process: every call is a turn for the others, and may fail, be cut off, or be the last."""

from __future__ import annotations

import errno
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

import pyarrow as pa

from lakelog.common.errors import UnavailableError
from lakelog.filestore.io.fileio import FileEntry, FileIO, OutputFile
from lakelog.filestore.metadata.tables.consumers import STATE_CONSUMER
from tests.filestore.simulation.world import Fault, Process, World
from tests.support.files.abortable_file import AbortableFile

Result = TypeVar("Result")
SNAPSHOT_WEIGHT = 12  # the call that decides is where faults are worth most


class Watcher(Protocol):
    """What is called with each change of the table."""

    def created(self, process: Process, path: str) -> None:
        """A file was created, which was not there before."""
        ...

    def deleting(self, process: Process, path: str) -> None:
        """A file is about to be deleted."""
        ...


class OtherEngine:
    """Makes a FileIO that of another engine: snapshots get nothing of lakelog's, and its consumer is not moved."""

    def __init__(self, inner: SimFileIO) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def create_new(self, path: str, data: bytes) -> bool:
        if "/snapshot/" in path:
            fields = json.loads(data)
            del fields["properties"], fields["writerVersion"]
            data = json.dumps(fields).encode()
        return "/lakelog/" in path or self._inner.create_new(path, data)

    def write_bytes(self, path: str, data: bytes) -> None:
        if not path.endswith(STATE_CONSUMER):
            self._inner.write_bytes(path, data)


@dataclass(frozen=True, slots=True)
class SimFileIO:
    """The calls of one process, on files that `inner` keeps."""

    world: World
    process: Process
    inner: FileIO
    root: str
    watcher: Watcher

    def read_bytes(self, path: str) -> bytes:
        return self._call("read_bytes", path, lambda: self.inner.read_bytes(path))

    def write_bytes(self, path: str, data: bytes) -> None:
        self._call(
            "write_bytes", path, lambda: self.inner.write_bytes(path, data), torn=lambda: self._torn_write(path, data)
        )

    def create_new(self, path: str, data: bytes) -> bool:
        def create() -> bool:
            is_new = self.inner.create_new(path, data)
            if is_new:
                self.watcher.created(self.process, path)
            return is_new

        weight = SNAPSHOT_WEIGHT if "/snapshot/" in path else 1
        return self._call("create_new", path, create, torn=lambda: self._torn_write(path, data), weight=weight)

    def exists(self, path: str) -> bool:
        return self._call("exists", path, lambda: self.inner.exists(path))

    def size(self, path: str) -> int:
        return self._call("size", path, lambda: self.inner.size(path))

    def list_names(self, directory: str) -> list[str]:
        return self._call("list_names", directory, lambda: sorted(self.inner.list_names(directory)))

    def list_entries(self, directory: str) -> list[FileEntry]:
        return self._call(
            "list_entries", directory, lambda: sorted(self.inner.list_entries(directory), key=lambda one: one.name)
        )

    def delete_empty_dir(self, directory: str) -> bool:
        return self._call("delete_empty_dir", directory, lambda: self.inner.delete_empty_dir(directory))

    def delete_tree(self, directory: str, *, last: Sequence[str] = ()) -> None:
        self._call("delete_tree", directory, lambda: self.inner.delete_tree(directory, last=last))

    def delete(self, path: str) -> None:
        def delete() -> None:
            self.watcher.deleting(self.process, path)
            self.inner.delete(path)

        self._call("delete", path, delete)

    def make_dirs(self, directory: str) -> None:
        self._call("make_dirs", directory, lambda: self.inner.make_dirs(directory))

    def open_input(self, path: str) -> pa.NativeFile:
        opened = self._call("open_input", path, lambda: self.inner.open_input(path))
        if not self._is_cut_off("reads", path):
            return opened
        return pa.PythonFile(_FailingInput(opened.read()), mode="r")

    def open_output(self, path: str) -> OutputFile:
        def create() -> _Output:
            self.inner.open_output(path).close()
            return _Output(self.process, Path(path).open("wb"))

        output = self._call("open_output", path, create)
        if self._is_cut_off("writes", path):
            output.bytes_left = self.world.rng.randrange(2_000)
            output.is_killed = self.world.rng.random() < 0.5
        file = AbortableFile(output, mode="w")
        file.give_up = lambda: self.delete(path)
        return file

    def sync(self, path: str) -> None:
        self._call("sync", path, lambda: self.inner.sync(path))

    def _call(
        self,
        name: str,
        path: str,
        act: Callable[[], Result],
        *,
        torn: Callable[[], None] = lambda: None,
        weight: float = 1,
    ) -> Result:
        self.process.check_alive()
        self.world.pause()
        self.process.check_alive()
        fault = self.world.draw_fault(weight)
        where = path.removeprefix(self.root).lstrip("/")
        self.world.tell(f"{name} {where}" + ("" if fault is None else f": {fault.value}"))
        if fault in (None, Fault.ANSWER_LOST, Fault.KILLED_AFTER):
            try:
                result = act()
            except Exception as error:
                self.world.tell(f"  {type(error).__name__}")
                raise
            if fault is None:
                if isinstance(result, bool):
                    self.world.tell(f"  {result}")
                return result
        elif fault in (Fault.TORN, Fault.KILLED_WITHIN):
            torn()
        assert fault is not None
        if fault.kills:
            self.world.kill(self.process)
        raise UnavailableError(f"{path}: {fault.value} ({name})")

    def _is_cut_off(self, what: str, path: str) -> bool:
        if self.world.draw_fault(0.5) is None:
            return False
        self.world.tell(f"  its {what} are cut off")
        return True

    def _torn_write(self, path: str, data: bytes) -> None:
        """What a cut-off write leaves: half a temporary file, or half a hint, for others write hints in place."""
        folder, _, name = path.rpartition("/")
        half = data[: len(data) // 2]
        if name in ("LATEST", "EARLIEST"):
            self.inner.write_bytes(path, half)
        else:
            self.inner.write_bytes(f"{folder}/.{name}.{self.world.fresh()}.tmp", half)


class _Output(io.RawIOBase):
    """A file being written. A dead process writes nothing more."""

    def __init__(self, process: Process, file: BinaryIO) -> None:
        super().__init__()
        self._process = process
        self._file = file
        self.bytes_left: int | None = None
        self.is_killed = False

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        given = bytes(data)  # type: ignore[call-overload]  # whatever Arrow hands over is a buffer
        if not self._process.is_alive:
            return len(given)
        if self.bytes_left is not None and len(given) > self.bytes_left:
            self._file.write(given[: self.bytes_left])
            self.bytes_left = 0
            if self.is_killed:
                self._process.is_alive = False
                return len(given)
            raise OSError(errno.ENOSPC, "no space left on device")
        if self.bytes_left is not None:
            self.bytes_left -= len(given)
        return self._file.write(given)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        if not self._file.closed:
            self._file.flush()

    def close(self) -> None:
        self._file.close()
        super().close()


class _FailingInput(io.BytesIO):
    """A file whose bytes do not come."""

    def read(self, size: int | None = -1) -> bytes:
        raise OSError(errno.EIO, "input/output error")

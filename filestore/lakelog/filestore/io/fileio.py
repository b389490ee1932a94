"""Files by path: read, replace, create-new, list, delete.

Paths are absolute strings, or URLs of an object store. A missing file raises NotFoundError, any other failure of the
store UnavailableError.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Protocol, Self

import pyarrow as pa

from lakelog.common.errors import CorruptDataError

WHOLE_BYTES_MAX = 128 << 20  # of a file that is read completely: metadata and indexes, which are far smaller


FileMark = tuple[int, ...]


class FileEntry(NamedTuple):
    """A file or a folder in a folder. `modified_millis` is when it was last changed, in epoch milliseconds.

    A folder in an object store, which has only names with slashes, has the time 0. A link is not followed, and does not
    count as a folder.
    """

    name: str
    is_folder: bool
    size_bytes: int
    modified_millis: int
    is_link: bool = False


class OutputFile(Protocol):
    """A new file that is being written. As a context manager it is closed at the end, and aborted after an error."""

    def write(self, data: bytes | pa.Buffer) -> int:
        """Append bytes."""
        ...

    def tell(self) -> int:
        """Bytes written so far."""
        ...

    def close(self) -> None:
        """The file is whole."""
        ...

    def abort(self) -> None:
        """Abandon the file: it never becomes visible, or it is deleted."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class NewFile(ABC):
    """Closed at the end of its `with` block; aborted when the block raises."""

    @abstractmethod
    def close(self) -> None:
        """The file is whole."""

    @abstractmethod
    def abort(self) -> None:
        """The file is given up."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class FileIO(Protocol):
    """What the file store needs from a file system or an object store."""

    def read_bytes(self, path: str) -> bytes:
        """The whole file. Raises NotFoundError, and CorruptDataError for one of more than `WHOLE_BYTES_MAX`."""
        ...

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write or replace the file; a reader sees the old bytes or the new ones, never a part."""
        ...

    def create_new(self, path: str, data: bytes) -> bool:
        """Create the file whole and durable; False when it exists already. One of many racing callers wins."""
        ...

    def exists(self, path: str) -> bool:
        """True if the file exists. Only for files: an object store has no folders."""
        ...

    def size(self, path: str) -> int:
        """The file's bytes. Raises NotFoundError."""
        ...

    def list_names(self, directory: str) -> list[str]:
        """Names in a folder, in no order; empty if the folder is missing."""
        ...

    def list_entries(self, directory: str) -> list[FileEntry]:
        """The entries of a folder, with sizes and times, in no order; empty if the folder is missing."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file; a missing one is fine."""
        ...

    def delete_empty_dir(self, directory: str) -> bool:
        """Delete a folder if it is empty; False when it is not, or is missing already."""
        ...

    def delete_tree(self, directory: str, *, last: Sequence[str] = ()) -> None:
        """Delete a folder with its contents; a missing one is fine.

        Where this takes several steps, its folders `last` are deleted last, in their order.
        """
        ...

    def make_dirs(self, directory: str) -> None:
        """Make a folder and its parents; an existing one is fine."""
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random reads. Raises NotFoundError."""
        ...

    def open_output(self, path: str) -> OutputFile:
        """Open a new file for writing; its folder is created. Not atomic: for names that no other process knows yet."""
        ...

    def sync(self, path: str) -> None:
        """Make a file that was written through `open_output` durable, before something durable names it."""
        ...


def marks_of(file_io: FileIO, paths: Sequence[str]) -> list[FileMark | None]:
    """For each file a mark that is another one once the file was written again or replaced, whoever did it.

    None for a file whose mark is not known: it is missing, or was changed just now, or `file_io` has no marks, as an
    object store. Such a file must be read.
    """
    marks: list[FileMark | None] | None = None
    ask = getattr(file_io, "marks", None)
    if ask is not None:
        marks = ask(paths)
    return [None] * len(paths) if marks is None else marks


def check_whole(path: str, size_bytes: int) -> None:
    """Raise CorruptDataError for a file that is too large to be read completely."""
    if size_bytes > WHOLE_BYTES_MAX:
        raise CorruptDataError(
            f"{path} is damaged: it has {size_bytes} bytes, and files of its kind at most {WHOLE_BYTES_MAX}; restore "
            "the file from a copy, or read a snapshot or tag that does not need it"
        )

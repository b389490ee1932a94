"""File systems: unlike object stores they have folders, which can be renamed, and can be missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.filestore.io.path_forms import is_below

if TYPE_CHECKING:
    from lakelog.filestore.io.fileio import FileIO


@runtime_checkable
class FolderStore(Protocol):
    """The files of a file system."""

    def rooted(self, root: str) -> FileIO:
        """The same files, but writes create folders only below `root`.

        A write raises NotFoundError if `root` is missing.

        So a writer that has the old place of a renamed or dropped table creates nothing there.
        """
        ...

    def rename_folder(self, source: str, target: str) -> bool:
        """Rename a folder with its contents, in one step; False if `target` exists.

        Raises NotFoundError if the folder, or the one above the target, is missing.
        """
        ...


def missing(root: str) -> NotFoundError:
    """The error for a write below a missing `root`."""
    return NotFoundError(
        f"{root} does not exist: the table was renamed or dropped since it was opened. Open it again, a renamed one by "
        "its new name"
    )


def folder_in_place_of_file(path: str) -> CorruptDataError:
    """The error for a path that is a folder, where a table has a file."""
    return CorruptDataError(
        f"{path} is damaged: it is a folder, expected a file; move the folder away, and restore the file from a copy"
    )


def folders_below(folder: str, root: str) -> Iterator[str]:
    """The folders from below `root` down to `folder`, which is below it or `root` itself. Pure.

    Each is to be created by a call of its own: between a check of `root` and the creation `root` could be renamed.
    """
    assert is_below(folder, root)
    at = root
    for name in folder[len(root) + 1 :].split("/") if folder != root else ():
        at = f"{at}/{name}"
        yield at

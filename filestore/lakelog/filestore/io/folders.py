"""File systems, which have folders, unlike object stores: a folder can be renamed, and it can be missing."""

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
        """The same files, where writes make folders below `root` only: a write raises NotFoundError without it.

        So a writer with the old place of a renamed or dropped table creates nothing there.
        """
        ...

    def rename_folder(self, source: str, target: str) -> bool:
        """Rename a folder with all that is in it, in one step; False when there is something at `target`.

        Raises NotFoundError when the folder, or the one above the target, is missing.
        """
        ...


def missing(root: str) -> NotFoundError:
    """The error of a write below a `root` that is missing."""
    return NotFoundError(
        f"{root} does not exist: the table was renamed or dropped since it was opened. Open it again, a renamed one by "
        "its new name"
    )


def folder_in_place_of_file(path: str) -> CorruptDataError:
    """The error of a path that is a folder, where a table has a file."""
    return CorruptDataError(
        f"{path} is damaged: it is a folder, expected a file; move the folder away, and restore the file from a copy"
    )


def folders_below(folder: str, root: str) -> Iterator[str]:
    """The folders from below `root` down to `folder`, which is below it or `root` itself. Pure.

    Each is to be made by a call of its own: between a look at `root` and the making it could be renamed.
    """
    assert is_below(folder, root)
    at = root
    for name in folder[len(root) + 1 :].split("/") if folder != root else ():
        at = f"{at}/{name}"
        yield at

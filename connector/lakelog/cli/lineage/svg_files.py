"""Pictures that commands write."""

from __future__ import annotations

import os
from pathlib import Path

from lakelog.common.errors import InvalidRequestError, UnavailableError


def write_picture(svg: str, path: Path) -> None:
    """Write the picture, replacing a file of this name; a link is not followed: another user may choose its target."""
    from lakelog.filestore.io import LocalFileIO

    if not path.parent.is_dir():
        raise InvalidRequestError(f"the picture cannot be written to {path}: No such file or folder {path.parent}")
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise InvalidRequestError(f"the picture cannot be written to {path}: it is not a regular file; name another")
    try:
        LocalFileIO().write_bytes(str(path.absolute()), svg.encode())
    except UnavailableError as error:
        raise InvalidRequestError(f"the picture cannot be written: {error}") from error

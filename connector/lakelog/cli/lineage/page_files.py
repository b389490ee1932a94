"""Pages that commands write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from lakelog.common.errors import InvalidRequestError, UnavailableError

Html = Annotated[Path | None, typer.Option("--html", help="Write the page of the answer to this file too.")]
Svg = Annotated[Path | None, typer.Option("--svg", hidden=True)]


def write_page(html: str, path: Path) -> None:
    """Write the page, replacing a file of this name; a link is not followed: another user may choose its target."""
    from lakelog.filestore.io import LocalFileIO

    if not path.parent.is_dir():
        raise InvalidRequestError(f"the page cannot be written to {path}: No such file or folder {path.parent}")
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise InvalidRequestError(f"the page cannot be written to {path}: it is not a regular file; name another")
    try:
        LocalFileIO().write_bytes(str(path.absolute()), html.encode())
    except UnavailableError as error:
        raise InvalidRequestError(f"the page cannot be written: {error}") from error


def check_no_svg(svg: Path | None) -> None:
    """Raise for an option of before."""
    if svg is not None:
        raise InvalidRequestError(f"--svg is removed: --html {svg.with_suffix('.html')} writes a page that saves SVG")

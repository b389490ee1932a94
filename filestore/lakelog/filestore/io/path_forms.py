"""The forms of paths: absolute folders, and URLs of object stores and HDFS. No I/O except for `~`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from lakelog.common.errors import InvalidRequestError
from lakelog.common.options import Option, parse_names
from lakelog.common.quoting import cut

DATABASE_SUFFIX = ".db"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SHOWN_MAX = 300
_ONE_SLASH = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/(?!/)")  # one letter is a drive
_NO_PLACES: tuple[str, ...] = ()
VARIABLE = "LAKELOG_EXTERNAL_PATHS"
EXTERNAL_PATHS = Option(
    key="lakelog.external-paths",
    parse=parse_names,
    default=_NO_PLACES,
    doc="Folders outside of a table's own that its files may be read from, with commas: those of tables with external "
    f"paths, and those that links in a table's folder lead to. The environment variable `{VARIABLE}` is the "
    "same. Nothing is written or deleted there. Without it such a file is refused. It is given when a table is opened, "
    "and never stored with a table.",
    kind="folders with commas",
)


def is_local(path: str) -> bool:
    """True for the path of a folder or file of this machine, False for a URL."""
    return "://" not in path


def is_object_store(path: str) -> bool:
    """True for a URL of an object store, which has names with slashes, and no folders."""
    return path.startswith(("s3://", "s3a://"))


def is_below(path: str, folder: str) -> bool:
    """Whether a path is a folder or below it, by their names."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


_LISTED_DEPTH = 2  # of a tag and a consumer: their folder, and their file


def warehouse_of(path: str) -> str:
    """The warehouse of the table in the folder `path`; outside a warehouse, the folder that holds the table."""
    folder = path.rpartition("/")[0]
    return (folder.rpartition("/")[0] if folder.endswith(DATABASE_SUFFIX) else folder) or "/"


def has_control(path: str) -> bool:
    """Whether a path holds NUL, a line break or another control character."""
    return _CONTROL.search(path) is not None


def shown_path(path: str) -> str:
    """A path for a message, on one line and not too long."""
    return repr(cut(path, _SHOWN_MAX))


def plain_path(text: str) -> str:
    """A path without the prefix `file:`, which Java writes before local paths. URLs stay as they are.

    Raises InvalidRequestError for a `file:` that does not name an absolute folder of this machine.
    """
    scheme, colon, rest = text.partition(":")
    if not colon or scheme.lower() != "file":
        return text
    host, slash, below = rest[2:].partition("/") if rest.startswith("//") else ("", rest[:1], rest[1:])
    if host not in ("", "localhost") or slash != "/":
        raise InvalidRequestError(
            f"{shown_path(text)} names no folder of this machine; expected a path such as file:///lake or /lake"
        )
    return f"/{below.lstrip('/')}"


def user_path(given: str | Path) -> str:
    """The folder that a user gives: an absolute path, or a URL without a slash at its end. `~` is the user's home.

    Raises InvalidRequestError for a control character, a URL with one slash, and the home of an unknown user.
    """
    text = plain_path(str(given))
    if has_control(text):
        raise InvalidRequestError(f"{shown_path(text)} holds a control character; expected the path of a folder")
    if not is_local(text):
        return text.rstrip("/")
    if _ONE_SLASH.match(text):
        raise InvalidRequestError(
            f"{shown_path(text)} is not a path: a URL has two slashes, such as s3://bucket/folder; a folder of that "
            f"name is written './{text}'"
        )
    if text.startswith("~"):
        text = _expanded(text)
    return str(Path(text).absolute())


def _expanded(text: str) -> str:
    try:
        return str(Path(text).expanduser())
    except RuntimeError as error:
        raise InvalidRequestError(
            f"{shown_path(text)} names the home of a user that this machine does not know; write the folder itself, or "
            f"'./{text}' for one of that name"
        ) from error


def scheme_of(path: str) -> str:
    """The scheme of a URL, `s3` for both names of it; empty for a local path."""
    return as_s3(path).partition("://")[0] if not is_local(path) else ""


def as_s3(path: str) -> str:
    """A path with the scheme `s3` in place of `s3a`, which is the same."""
    return f"s3://{path[6:]}" if path.startswith("s3a://") else path


def names_from_metadata(parts: list[str]) -> list[str]:
    """The names without branch folders, tags and consumers, which are found by listing."""
    is_branch = len(parts) > 1 and parts[0] == "branch"
    own = parts[2:] if is_branch else parts
    return [] if len(own) == _LISTED_DEPTH and own[0] in {"tag", "consumer"} else own


def external_places(options: Mapping[str, str]) -> tuple[str, ...]:
    """The folders that the options or the environment allow. Raises InvalidRequestError for one that is relative."""
    given = [*EXTERNAL_PATHS.of(options), *parse_names(os.environ.get(VARIABLE, ""))]
    places = [plain_path(place).rstrip("/") or "/" for place in given]
    for place in places:
        if is_local(place) and not place.startswith("/"):
            raise InvalidRequestError(
                f"{EXTERNAL_PATHS.key} or {VARIABLE} names {place!r}; expected absolute folders or URLs, with commas"
            )
    return tuple(dict.fromkeys(places))


def how_to_allow() -> str:
    """How a user allows an external folder, for messages."""
    return f"options={{'{EXTERNAL_PATHS.key}': '/folder'}} where the table is opened, or the variable {VARIABLE}"

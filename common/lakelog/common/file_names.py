"""File names that come from outside: from manifests, snapshots, headers in the log, or from users.

Each becomes the last part of a path. A name with a slash, or `..`, would lead out of its folder. Paimon's names are
letters, digits, `-`, `_` and `.`, after a prefix that the table's owner chooses; so a name that is refused here is no
accident.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from lakelog.common.errors import InvalidRequestError
from lakelog.common.json_fields import COUNT
from lakelog.common.quoting import cut

LENGTH_MAX = 255  # bytes of a name, in the file systems that are in use
_USER_LENGTH_MAX = 200  # leaves room for a prefix, and for the name of a temporary file
SPECIAL = r"[/\\\x00-\x1f\x7f]"
_NO_NAME = re.compile(rf"{SPECIAL}|^\.{{0,2}}\Z")
_LEADS_AWAY = re.compile(r"[/\x00]|^\.{0,2}\Z")
_ID = re.compile(r"0|[1-9][0-9]{0,18}")  # as an id is written, so that its name leads back to the file


def check_file_name(name: object) -> str:
    """The name, if it names a file in a folder. Raises ValueError for anything else."""
    if not isinstance(name, str) or _NO_NAME.search(name) or len(name.encode("utf-8", "replace")) > LENGTH_MAX:
        raise ValueError(f"{shown_name(name)} is not the name of a file")
    return name


def check_file_names(names: Iterable[object]) -> tuple[str, ...]:
    """The names, each checked by `check_file_name`."""
    return tuple(check_file_name(name) for name in names)


def check_user_name(name: str, what: str) -> str:
    """The name of a tag, branch or consumer, if a file can have it. Raises InvalidRequestError."""
    if _NO_NAME.search(name) or not name.isprintable() or len(name.encode("utf-8", "replace")) > _USER_LENGTH_MAX:
        raise InvalidRequestError(
            f"{what} {shown_name(name)} is not usable: it names a file; expected 1 to {_USER_LENGTH_MAX} bytes without "
            "slashes and control characters"
        )
    return name


def check_found_name(name: str, what: str) -> str:
    """The name of a branch, tag or consumer that may be there already. Raises InvalidRequestError.

    It leads into no other folder.

    Other programs may have put it there under any name: lakelog reads and deletes what it would not create, see
    `check_user_name`.
    """
    if _LEADS_AWAY.search(name) or not 0 < _bytes_of(name) <= LENGTH_MAX:
        raise InvalidRequestError(
            f"{what} {shown_name(name)} is not usable: it names a file or folder; expected 1 to {LENGTH_MAX} bytes "
            "without slashes"
        )
    return name


def _bytes_of(name: str) -> int:
    """How long a name is on a disk; 0 for half a character, which no file can have."""
    try:
        return len(os.fsencode(name))
    except UnicodeEncodeError:
        return 0


def shown_name(name: object) -> str:
    return cut(repr(name), _USER_LENGTH_MAX)


def numbers_of(names: Iterable[str], prefix: str) -> list[int]:
    """The numbers behind `prefix` in names, in ascending order; names with anything else behind it are left out."""
    numbers = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
    return sorted(int(number) for number in numbers if _ID.fullmatch(number) is not None and int(number) in COUNT)

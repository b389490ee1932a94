"""The error tree. Each class answers one question: what does the caller do now?

    LakelogError
    ├── InvalidRequestError     fix the call
    │   └── OptionError         an option's key or value
    ├── NotFoundError           name another table, snapshot, tag or branch
    ├── ConflictError           read again and commit again
    │   └── FencedError         another writer owns the bucket now
    ├── UnavailableError        retry later
    │   ├── UnknownOutcomeError a transaction or a commit may or may not be in the table
    │   ├── StalledError        an open transaction hides the end of the log
    │   └── TransactionTimeoutError  a transaction was open for too long, and aborted
    ├── CorruptDataError        stop and repair
    └── UnsupportedError        the format allows it, lakelog does not yet

A message names the thing, the value found, the value expected and the next step.
"""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from lakelog.common.quoting import escaped, shown, without_middle

MESSAGE_MAX = 8_000


class LakelogError(Exception):
    """The root of every error that lakelog raises on purpose.

    A message may quote files and topics: so it is never longer than about `MESSAGE_MAX`, and characters that do not
    print are escaped, since a traceback prints the message to a terminal.
    """

    def __init__(self, message: str = "") -> None:
        short = escaped(without_middle(message, MESSAGE_MAX), kept="\n")
        super().__init__(without_middle(short, MESSAGE_MAX))


class InvalidRequestError(LakelogError):
    """The call cannot succeed as it is: fix the call."""


class NotFoundError(LakelogError):
    """The named table, snapshot, tag or branch does not exist: name another."""


class ConflictError(LakelogError):
    """Another writer changed the table meanwhile: read again and commit again."""


class UnavailableError(LakelogError):
    """A service or store does not answer: retry later."""


class UnknownOutcomeError(UnavailableError):
    """A transaction or a commit may or may not have taken effect: look for it before anything is written again.

    `commit_uuid` is the uuid of a commit to the file store, which `Table.upkeep.find_commit` looks for, and
    `snapshot_id` is the snapshot that the commit would create; both are None for a transaction of the log.
    """

    def __init__(self, message: str, *, commit_uuid: str | None = None, snapshot_id: int | None = None) -> None:
        super().__init__(message)
        self.commit_uuid = commit_uuid
        self.snapshot_id = snapshot_id


class StalledError(UnavailableError):
    """An open transaction keeps committed records out of sight."""


class TransactionTimeoutError(UnavailableError):
    """The broker has aborted a transaction that was open for longer than its time-out: allow a longer one."""


class CorruptDataError(LakelogError):
    """Stored bytes are not what they must be: stop and repair."""


class UnsupportedError(LakelogError):
    """The format or the engine allows it, lakelog does not yet."""


class FencedError(ConflictError):
    """Another writer has taken over the bucket's producer."""


class OptionError(InvalidRequestError):
    """An option has an unknown key or a value outside its type."""

    @classmethod
    def unknown(cls, key: str, known: Collection[str]) -> OptionError:
        """Build the error for a key that no option declares."""
        near = get_close_matches(key, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`lakelog options` lists them"
        return cls(f"unknown option {shown(key)}; {hint}")

    @classmethod
    def bad_value(cls, key: str, value: object, expected: str) -> OptionError:
        """Build the error for a value that does not fit the option's type."""
        return cls(f"option {key!r} has the value {shown(value)}; expected {expected}")

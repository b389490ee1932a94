"""Where a branch began: the file `lakelog/fork` in the folder of the branch.

Branches of other engines have none. Both lines, the table's and the branch's, have a tag of the fork snapshot, so that
neither line's expiry deletes files that the other still needs; other engines know only the tags of their own line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any  # Any: parsed JSON

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.common.file_names import check_file_name
from lakelog.common.json_fields import COUNT, LONG, optional, parse_object, string, whole
from lakelog.common.quoting import cause
from lakelog.filestore.io.fileio import FileIO, FileMark, marks_of
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot, is_same_commit
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.paths import TablePaths

_READ_MAX = 20_000
PROTECTING_PREFIX = "lakelog-fork-"  # of the tags that keep the fork snapshot, in both lines


_read: dict[str, tuple[FileMark, Fork]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """The point where a branch began. A JSON object with these keys:

    `branchId`, which differs from that of any other branch, also of a later one with its name; `timeMillis`, when the
    branch was created; for the snapshot, unless the branch began empty, `snapshotId` and `commitUuid` (missing for a
    snapshot without one), and `protectingTag`, the tag that keeps it in both lines; `tag` if the branch was created
    from one; `retainedMillis` if `expire_branches` is to delete the branch this long after its creation; `takenMillis`
    if the table has taken over the branch up to the snapshot, which was written to the branch: when it last did so.
    """

    branch_id: str
    created_millis: int
    snapshot_id: int | None = None
    commit_uuid: str | None = None
    protecting_tag: str | None = None
    tag: str | None = None
    retained_millis: int | None = None
    taken_millis: int | None = None

    def to_fields(self) -> dict[str, object]:
        """The JSON object."""
        values = {key: getattr(self, name) for name, key in _KEYS.items()}
        return {key: value for key, value in values.items() if value is not None}

    def to_json(self) -> bytes:
        """The bytes of the file."""
        return json.dumps(self.to_fields(), indent=2).encode()

    @classmethod
    def of_fields(cls, given: dict[str, Any]) -> Fork:
        """Parse the object. Raises ValueError, KeyError."""
        tags = [optional(string, given, key) for key in ("protectingTag", "tag")]
        for tag in tags:
            if tag is not None:
                check_file_name(tag)
        return cls(
            branch_id=string(given, "branchId"),
            created_millis=whole(given, "timeMillis", LONG),
            snapshot_id=optional(whole, given, "snapshotId"),
            commit_uuid=optional(string, given, "commitUuid"),
            protecting_tag=tags[0],
            tag=tags[1],
            retained_millis=None if given.get("retainedMillis") is None else whole(given, "retainedMillis", COUNT),
            taken_millis=None if given.get("takenMillis") is None else whole(given, "takenMillis", LONG),
        )


_KEYS = {
    "branch_id": "branchId",
    "created_millis": "timeMillis",
    "snapshot_id": "snapshotId",
    "commit_uuid": "commitUuid",
    "protecting_tag": "protectingTag",
    "tag": "tag",
    "retained_millis": "retainedMillis",
    "taken_millis": "takenMillis",
}


def is_fork_commit(fork: Fork, snapshot: Snapshot | None, *, protected: Snapshot | None) -> bool:
    """Whether a snapshot is the one at which a branch began, and not another snapshot with its number.

    Snapshots of other engines may have no uuid: these are compared with `protected`, what the protecting tag keeps.
    """
    if snapshot is None or snapshot.id != fork.snapshot_id or snapshot.uuid != fork.commit_uuid:
        return False
    return fork.commit_uuid is not None or protected is None or is_same_commit(snapshot, protected)


def read_fork(table: TableStore, branch: str) -> Fork | None:
    """Where a branch began; None for branches of other engines. Raises CorruptDataError."""
    return fork_of(table.file_io, TablePaths(table.path, branch), table_name=table.name)


def read_forks(table: TableStore, branches: Sequence[str]) -> Iterator[tuple[str, Fork | None]]:
    """Each branch with where it began, None also for a damaged file.

    A file that this process has read is read again only if its mark is another one, see `marks_of`.
    """
    paths = [TablePaths(table.path, branch).fork_file for branch in branches]
    for branch, path, mark in zip(branches, paths, marks_of(table.file_io, paths), strict=True):
        held = _read.get(path)
        if mark is not None and held is not None and held[0] == mark:
            yield branch, held[1]
            continue
        try:
            fork = read_fork(table, branch)
        except CorruptDataError:
            fork = None
        if mark is not None and fork is not None:
            if len(_read) >= _READ_MAX:
                _read.clear()
            _read[path] = mark, fork
        yield branch, fork


def fork_of(file_io: FileIO, paths: TablePaths, *, table_name: str) -> Fork | None:
    """As `read_fork`, of the branch with these paths."""
    path, branch = paths.fork_file, paths.branch
    try:
        return Fork.of_fields(dict(parse_object(file_io.read_bytes(path))))
    except NotFoundError:
        return None
    except (KeyError, ValueError) as error:
        raise CorruptDataError(
            f"{path} does not say where branch {branch!r} of {table_name} began: {cause(error)}; restore the file, or "
            "delete it: then the branch is one without a fork point, such as those of other engines"
        ) from error

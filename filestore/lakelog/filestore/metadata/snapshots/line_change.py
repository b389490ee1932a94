"""A change of a table's whole line of snapshots: a branch replaces what the table has got since the branch began.

It changes many files, and a process may end between any two. `lakelog/main-change` lists all acts in order; each act
can be done twice. This file is written first. Then the file `lakelog/main-change-<id>` decides, which only one of
several callers can create: with `go` the change takes place, and any process that finds it finishes it; with
`cancelled` it does not. A writer that has created a snapshot looks for the change: it tries to cancel the change, since
its commit came first, but if the change is decided, its commit is dropped. The change's file is deleted at the end, the
decision a day later: a slow process must not decide again.

Other engines do not look for the change: their writers must be stopped before.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any  # Any: parsed JSON

from lakelog.common.errors import ConflictError, CorruptDataError, InvalidRequestError, NotFoundError
from lakelog.common.file_names import check_file_names
from lakelog.common.json_fields import items, optional, parse_object, string
from lakelog.common.quoting import cause, shown
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.schema.paths import BRANCH_PREFIX, MAIN_BRANCH

WRITE, DELETE, DELETE_TREE = "write", "delete", "delete-tree"
_GO, _CANCELLED = b"go", b"cancelled"
_BYTES_MAX = 15 << 20
ACTS_MAX = 10_000  # a process that finds a decided change does all of them first, in about 10 seconds
_FOLDERS = ("branch", "changelog", "schema", "snapshot", "tag")  # below the table's, of the files that a change has
_DECISION_MILLIS = 24 * 3_600_000
Act = tuple[str, str, str | None]  # what is done, the path below the table's folder, and the text or a commit's uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChange:
    """One change: an object with its `id`, the `branch`, whether it `dropsBranch`, and its `acts` in order.

    An act is ["write", path, text], ["delete", path, uuid], which deletes a snapshot only if it is of this commit, and
    any other file with null, or ["delete-tree", path, null].
    """

    id: str
    branch: str
    drops_branch: bool
    acts: Sequence[Act]

    def concerns(self, branch: str) -> bool:
        """Whether it changes the snapshots of a line."""
        return branch == MAIN_BRANCH or (self.drops_branch and branch == self.branch)

    @property
    def written(self) -> frozenset[str]:
        """The paths of the files that it writes."""
        return frozenset(path for kind, path, _ in self.acts if kind == WRITE)


def new_change(branch: str, acts: Sequence[Act], *, drops_branch: bool) -> LineChange:
    """A change with an id of its own."""
    return LineChange(id=str(uuid.uuid4()), branch=branch, drops_branch=drops_branch, acts=acts)


def change_path(root: str) -> str:
    """The file of a change of the table in the folder `root`."""
    return f"{root}/lakelog/main-change"


def read_change(file_io: FileIO, root: str) -> LineChange | None:
    """The change that was begun; None without one. Raises CorruptDataError."""
    path = change_path(root)
    try:
        return _parsed(parse_object(file_io.read_bytes(path)))
    except NotFoundError:
        return None
    except (KeyError, ValueError) as error:
        raise CorruptDataError(
            f"{path} is not a change of the table's line: {cause(error)}; restore the table's folder from a copy, or "
            "delete the file and check which snapshots the table has"
        ) from error


def _parsed(given: Mapping[str, Any]) -> LineChange:
    """Raises ValueError, KeyError for what lakelog does not write: any process that finds the acts does them."""
    change_id, branch = string(given, "id"), string(given, "branch")
    check_file_names([change_id, branch])
    acts = items(given, "acts")
    if len(acts) > ACTS_MAX:
        raise ValueError(f"it has {len(acts)} acts, expected at most {ACTS_MAX}")
    drops_branch = given.get("dropsBranch") is True
    return LineChange(id=change_id, branch=branch, drops_branch=drops_branch, acts=[_act(one, branch) for one in acts])


def _act(given: object, branch: str) -> Act:
    """One act, if a change of the line can have it. Raises ValueError, KeyError."""
    if type(given) is not list or len(given) != 3:
        raise ValueError(f"an act must be a list of three, found {shown(given)}")
    fields = dict(zip(("act", "path", "text"), given, strict=True))
    kind, path, text = string(fields, "act"), string(fields, "path"), optional(string, fields, "text")
    parts = check_file_names(path.split("/"))
    if kind == DELETE_TREE:
        is_known = path == f"branch/{BRANCH_PREFIX}{branch}"
    else:
        is_known = kind in (WRITE, DELETE) and (kind == DELETE or text is not None)
        is_known = is_known and len(parts) > 1 and parts[0] in _FOLDERS
    if not is_known:
        raise ValueError(f"a change of the line has no act {shown(given)}")
    return kind, path, text


def begin_change(file_io: FileIO, root: str, change: LineChange) -> None:
    """Write the file of a change. Raises ConflictError while another one is running."""
    fields = {"id": change.id, "branch": change.branch, "dropsBranch": change.drops_branch, "acts": change.acts}
    data = json.dumps(fields).encode()
    if len(data) > _BYTES_MAX or len(change.acts) > ACTS_MAX:
        raise InvalidRequestError(
            f"branch {change.branch!r} has too many snapshots to replace those of the table at once ({len(data)} bytes "
            f"of metadata in {len(change.acts)} files, at most {_BYTES_MAX} in {ACTS_MAX}); expire older snapshots of "
            "the branch and of the table first"
        )
    if not file_io.create_new(change_path(root), data):
        raise ConflictError(f"the line of the table in {root} is changed by another call: call this again")


def decide(file_io: FileIO, root: str, change: LineChange, *, goes: bool) -> bool:
    """Decide whether a change takes place, unless that is decided already; returns whether it does."""
    path = f"{change_path(root)}-{change.id}"
    if file_io.create_new(path, _GO if goes else _CANCELLED):
        return goes
    return file_io.read_bytes(path) == _GO


def finish_change(file_io: FileIO, root: str, change: LineChange) -> None:
    """Finish a decided change; does nothing if another process has done all of it."""
    found = read_change(file_io, root)
    if found is None or found.id != change.id:
        return
    for kind, below, text in change.acts:
        path = f"{root}/{below}"
        if kind == WRITE and text is not None:
            file_io.write_bytes(path, text.encode())
        elif kind == DELETE and (text is None or _commit_in(file_io, path) == text):
            file_io.delete(path)
        elif kind == DELETE_TREE:
            file_io.delete_tree(path, last=("schema",))
    end_change(file_io, root, change)


def end_change(file_io: FileIO, root: str, change: LineChange) -> None:
    """Delete the file of a change that took place, or was cancelled."""
    found = read_change(file_io, root)
    if found is not None and found.id == change.id:
        file_io.delete(change_path(root))


def settle_change(file_io: FileIO, root: str, *, now_millis: int) -> None:
    """Finish a begun change if it is decided, else cancel it; delete decisions that are older than a day.

    The decision of that change itself is kept, however old it is: without it a half-done change would be cancelled.
    """
    change = read_change(file_io, root)
    if change is not None and decide(file_io, root, change, goes=False):
        finish_change(file_io, root, change)
    elif change is not None:
        end_change(file_io, root, change)
    folder, _, name = change_path(root).rpartition("/")
    kept = name if change is None else f"{name}-{change.id}"
    for entry in file_io.list_entries(folder):
        is_old = entry.modified_millis < now_millis - _DECISION_MILLIS
        if is_old and entry.name.startswith(f"{name}-") and entry.name != kept:
            file_io.delete(f"{folder}/{entry.name}")


def _commit_in(file_io: FileIO, path: str) -> str | None:
    with contextlib.suppress(NotFoundError, ValueError):
        found = parse_object(file_io.read_bytes(path)).get("uuid")
        return found if isinstance(found, str) else None
    return None

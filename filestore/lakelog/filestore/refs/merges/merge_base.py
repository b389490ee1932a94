"""The state that a table and its branch both come from: the fork, later the last merged snapshot.

Each merge records in the properties of its own snapshot up to which snapshot the branch is merged, under
`lakelog.merged.<origin>`: {"branch": its name then, "snapshot": id, "uuid": of its commit}. The origin is the tag that
keeps the branch's fork snapshot, which no other branch has, not even a later branch of the same name; for branches of
other engines it is their name. All later snapshots carry the property, so that a merge and its record are one commit.
The next merge has that snapshot of the branch as its base: the tag `lakelog-merged-<id>` of the branch keeps it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from lakelog.common.errors import CorruptDataError, InvalidRequestError, NotFoundError
from lakelog.common.json_fields import COUNT, optional, parse_object, string, whole
from lakelog.common.quoting import cause, shown
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot, is_same_commit
from lakelog.filestore.metadata.snapshots.users import MERGED_PREFIX
from lakelog.filestore.metadata.tables.forks import Fork, read_fork
from lakelog.filestore.metadata.tables.identity import carried_by, latest_of
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.refs.states.table_state import TableState
from lakelog.filestore.refs.states.travel import at_version
from lakelog.filestore.refs.tags.tags import drop_tag, write_tag

TAG_PREFIX = "lakelog-merged-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Up to which snapshot a branch is merged."""

    branch: str
    snapshot_id: int
    commit_uuid: str | None

    def to_json(self) -> str:
        """The value of the property."""
        fields = {"branch": self.branch, "snapshot": self.snapshot_id, "uuid": self.commit_uuid}
        return json.dumps({key: value for key, value in fields.items() if value is not None}, separators=(",", ":"))

    @classmethod
    def of_json(cls, text: str, *, key: str) -> Merged:
        """Parse the value. Raises CorruptDataError."""
        try:
            fields = parse_object(text)
            return cls(
                branch=string(fields, "branch"),
                snapshot_id=whole(fields, "snapshot", COUNT),
                commit_uuid=optional(string, fields, "uuid"),
            )
        except (KeyError, ValueError) as error:
            raise CorruptDataError(f"snapshot property {key} is not readable: {cause(error)}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchLine:
    """A branch to merge: the table, the branch, the snapshot to merge, and where the branch began, if known."""

    main: TableStore
    branch: TableStore
    snapshot: Snapshot | None
    fork: Fork | None

    @classmethod
    def of(cls, main: TableStore, branch: TableStore) -> BranchLine:
        """The branch in its present state."""
        return cls(main=main, branch=branch, snapshot=latest_of(branch), fork=read_fork(main, branch.branch))

    @property
    def name(self) -> str:
        """The name of the branch."""
        return self.branch.branch

    @property
    def key(self) -> str:
        """The property that says up to which snapshot the branch is merged."""
        return _key_of(self.name, self.fork)

    def merged_up_to(self, latest: Snapshot | None) -> Merged | None:
        """Up to which snapshot the branch is merged into the table, as of a snapshot of the table."""
        text = carried_by(self.main, latest).properties.get(self.key)
        return None if not text else Merged.of_json(text, key=self.key)

    def record(self, latest: Snapshot | None) -> dict[str, str]:
        """The property of the commit that merges the branch, and an empty property for each branch deleted since.

        Empty for a branch without snapshots.
        """
        if self.snapshot is None:
            return {}
        merged = Merged(branch=self.name, snapshot_id=self.snapshot.id, commit_uuid=self.snapshot.uuid)
        return {self.key: merged.to_json(), **dict.fromkeys(self._over(latest), "")}

    def _over(self, latest: Snapshot | None) -> set[str]:
        """The records of deleted branches: their protecting tag is deleted, and no branch names it.

        A branch that is being renamed is not listed for a short time, but has its tag. A branch that began empty has no
        tag: its record is kept.
        """
        keys = {key for key in carried_by(self.main, latest).properties if key.startswith(MERGED_PREFIX)} - {self.key}
        keys -= {f"{MERGED_PREFIX}{tag}" for tag in self.main.snapshots.tags()} if keys else set()
        keys = {key for key in keys if not key.startswith(f"{MERGED_PREFIX}empty-")}
        if not keys:
            return keys
        return keys - {_key_of(name, read_fork(self.main, name)) for name in self.main.branch_names()[1:]}

    def base(self, latest: Snapshot | None, given: str | int | None) -> TableState:
        """The base of a merge into the table as of `latest`. Raises NotFoundError, InvalidRequestError."""
        if given is not None:
            return self._with_shared(self._given(given))
        merged = self.merged_up_to(latest)
        if merged is not None and self._is_own(merged):
            return self._with_shared(self._merged_state(merged))
        if self.fork is None:
            raise InvalidRequestError(
                f"branch {self.name!r} of table {self.main.name} has no fork point, as branches of other engines have "
                f"none: name the snapshot or tag that it was made from with base={self._both_have()}, or base=0 for a "
                "branch that was made empty"
            )
        return self._with_shared(self._fork_state(self.fork))

    def beginning(self) -> TableState | None:
        """The state at which the branch began; None if it is unknown or has expired."""
        if self.fork is None:
            return None
        try:
            return self._fork_state(self.fork)
        except NotFoundError:
            return None

    def _both_have(self) -> str:
        """The newest snapshot that both lines have, to be suggested as base; `...` if none is left."""
        ids = set(self.main.snapshots.ids()) & set(self.branch.snapshots.ids())
        shared = max((number for number in ids if self._shared(number) is not None), default=None)
        if shared is not None:
            return str(shared)
        tags = set(self.main.snapshots.tags()) & set(self.branch.snapshots.tags())
        return next((repr(tag) for tag in sorted(tags)), "...")

    def _is_own(self, merged: Merged) -> bool:
        """Whether the record is of this branch, and not of an earlier one of its name without a fork."""
        newest = 0 if self.snapshot is None else self.snapshot.id
        if self.fork is not None:
            return True
        found = self.branch.snapshots.find(merged.snapshot_id)
        return merged.snapshot_id <= newest and (found is None or found.uuid == merged.commit_uuid)

    def _merged_state(self, merged: Merged) -> TableState:
        snapshot = self.branch.snapshots.find(merged.snapshot_id)
        if snapshot is not None and snapshot.uuid != merged.commit_uuid:
            raise InvalidRequestError(
                f"branch {self.name!r} of table {self.main.name} was merged up to snapshot {merged.snapshot_id} with "
                f"the commit {merged.commit_uuid}, and that snapshot is of the commit {snapshot.uuid} now: the branch "
                "was rolled back since; name the state from which on it is to be merged with base="
            )
        if snapshot is None:
            snapshot = self._tagged(f"{TAG_PREFIX}{merged.snapshot_id}", merged.snapshot_id, merged.commit_uuid)
        return TableState(table=self.branch, snapshot=snapshot)

    def _with_shared(self, base: TableState) -> TableState:
        """The base, or the newest snapshot after it that both lines have: there is one after a fast-forward."""
        if self.snapshot is None or (base.table.branch == self.name and base.snapshot == self.snapshot):
            return base
        low = 0 if base.snapshot is None else base.snapshot.id
        newest = self.main.snapshots.latest_id() or 0
        if newest <= low or self._shared(low + 1) is None:
            return base
        low, high = low + 1, min(newest, self.snapshot.id)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (low, middle - 1) if self._shared(middle) is None else (middle, high)
        return TableState(table=self.branch, snapshot=self._shared(low))

    def _shared(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot of an id, if it is one commit in both lines."""
        ours, theirs = (line.snapshots.find(snapshot_id) for line in (self.main, self.branch))
        return theirs if ours is not None and theirs is not None and is_same_commit(ours, theirs) else None

    def _fork_state(self, fork: Fork) -> TableState:
        if fork.snapshot_id is None:
            return TableState(table=self.main, snapshot=None)
        for line in (self.branch, self.main):
            snapshot = line.snapshots.find(fork.snapshot_id)
            if snapshot is not None and snapshot.uuid == fork.commit_uuid:
                return TableState(table=line, snapshot=snapshot)
        return TableState(
            table=self.branch, snapshot=self._tagged(fork.protecting_tag, fork.snapshot_id, fork.commit_uuid)
        )

    def _tagged(self, tag: str | None, snapshot_id: int, commit_uuid: str | None) -> Snapshot:
        """The snapshot of a tag of the branch that keeps it. Raises NotFoundError."""
        if tag is not None and tag in self.branch.snapshots.tags():
            found = self.branch.snapshots.tagged(tag)
            if found.id == snapshot_id and found.uuid == commit_uuid:
                return found
        raise NotFoundError(
            f"snapshot {snapshot_id} of branch {self.name!r} of table {self.main.name}, up to which it is in the "
            f"table, has expired, and its tag {shown(tag)} was deleted: name another state that both come from "
            "with base="
        )

    def _given(self, given: str | int) -> TableState:
        """The state that a user names as in `VERSION AS OF`, see `travel`: of the branch, else of the table."""
        if given == 0:
            return TableState(table=self.main, snapshot=None)
        missing: list[str] = []
        for line in (self.branch, self.main):
            try:
                table, snapshot = at_version(line, given)
            except NotFoundError as error:
                missing.append(str(error))
                continue
            if table.branch not in (self.name, self.main.branch):
                raise InvalidRequestError(
                    f"base={shown(given)} is a state of branch {table.branch!r}: a merge of branch {self.name!r} "
                    f"begins at a state of that branch or of table {self.main.name}"
                )
            return TableState(table=table, snapshot=snapshot)
        raise NotFoundError(f"base={shown(given)} is no state of branch {self.name!r} or of its table: {missing[-1]}")

    def keep(self) -> None:
        """Keep the merged snapshot by a tag of the branch: the next merge begins there."""
        if self.snapshot is not None and f"{TAG_PREFIX}{self.snapshot.id}" not in self.branch.snapshots.tags():
            write_tag(self.branch, f"{TAG_PREFIX}{self.snapshot.id}", self.snapshot)

    def release(self, latest: Snapshot | None) -> None:
        """Delete the tags of earlier merges, once no merge begins there."""
        merged = self.merged_up_to(latest)
        for tag in self.branch.snapshots.tags():
            if _is_before(tag, merged):
                drop_tag(self.branch, tag)


def _key_of(name: str, fork: Fork | None) -> str:
    if fork is None:
        return f"{MERGED_PREFIX}branch-{name}"
    return f"{MERGED_PREFIX}{fork.protecting_tag or f'empty-{fork.created_millis}'}"


def _is_before(tag: str, merged: Merged | None) -> bool:
    """Whether a tag belongs to a merge before the recorded one."""
    number = tag.removeprefix(TAG_PREFIX)
    return merged is not None and number != tag and number.isdecimal() and int(number) < merged.snapshot_id

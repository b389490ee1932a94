"""A table and a branch of it: the last commit that both have, and what each has got since.

The number of that commit, the base, is not enough to find it: after a rollback, or after another branch replaced the
table's line, another commit has this number. So both lines are searched for the commit itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot, is_same_commit
from lakelog.filestore.metadata.tables.forks import Fork, is_fork_commit, read_fork
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.refs.tags.tags import tags_of


@dataclass(frozen=True, kw_only=True)
class Lines:
    """A table and a branch of it, as they are now: their living snapshots, and the last one that both have.

    `base_id` is 0 for a branch that began empty. `base` is the snapshot itself, as a tag or a line keeps it; None if
    neither does. `kept` are the snapshots of the table that stay when it gets those of the branch, `new` are those that
    it gets.
    """

    main: TableStore
    branch: TableStore
    fork: Fork | None
    base_id: int
    base: Snapshot | None
    main_ids: tuple[int, ...]
    branch_ids: tuple[int, ...]

    @classmethod
    def of(cls, main: TableStore, branch: TableStore) -> Lines:
        """Read both. Raises InvalidRequestError for lines that have no snapshot in common, and for an empty branch."""
        fork = read_fork(main, branch.branch)
        ours, theirs = tuple(main.snapshots.ids()), tuple(branch.snapshots.ids())
        if not theirs:
            raise InvalidRequestError(f"{branch.name} has no snapshot that {main.name} could get: write it first")
        base = _common(main, branch, ours, theirs) if fork is None else _fork_snapshot(main, branch, fork)
        number = fork.snapshot_id or 0 if fork is not None else 0 if base is None else base.id
        return cls(main=main, branch=branch, fork=fork, base_id=number, base=base, main_ids=ours, branch_ids=theirs)

    @property
    def head(self) -> int:
        """The newest snapshot of the branch."""
        return self.branch_ids[-1]

    @cached_property
    def has_base(self) -> bool:
        """Whether the table still has its snapshots up to the base, from which the branch continues."""
        if not self._is_base(self.main.snapshots.find(self.base_id)):
            return False
        return self._leads_on(self.branch, self.branch_ids)

    @cached_property
    def main_follows_base(self) -> bool:
        """Whether the snapshots of the table after the base are all living, and known to continue it."""
        return self._leads_on(self.main, self.main_ids)

    @property
    def kept(self) -> tuple[int, ...]:
        """The snapshots of the table up to the base; none if the branch does not continue from there."""
        return tuple(number for number in self.main_ids if number <= self.base_id) if self.has_base else ()

    @property
    def new(self) -> tuple[int, ...]:
        """The snapshots of the branch that the table gets: all of them if the table keeps none."""
        return tuple(number for number in self.branch_ids if number > self.base_id or not self.has_base)

    def lost_base(self) -> str | None:
        """A clause that says which line no longer has the base, and what it has in its place.

        None if both have it, or if it has expired, so that this is not known.
        """
        if self.base_id == 0:
            return None
        for line, ids in ((self.main, self.main_ids), (self.branch, self.branch_ids)):
            found = line.snapshots.find(self.base_id)
            if found is not None and not self._is_base(found):
                return f"snapshot {self.base_id} of {line.name} is of the commit {found.uuid or 'without a uuid'} now"
            if found is None and max(ids, default=0) < self.base_id:
                return f"{line.name} ends at snapshot {max(ids, default=0) or 'none'} now"
        return None

    def newer_of_main(self) -> list[int]:
        """The living snapshots of the table since the base that have changed rows."""
        found = (self.main.snapshots.find(number) for number in self.main_ids if number > self.base_id)
        return [one.id for one in found if one is not None and one.commit_kind is not CommitKind.COMPACT]

    def has_two_schemas(self) -> bool:
        """Whether the table has a schema that the branch lacks."""
        return any(not self.has_schema(number) for number in self.main.schemas.list_ids())

    def has_schema(self, number: int) -> bool:
        """Whether the branch has a schema of the table, with the same content."""
        if number not in self.branch.schemas.list_ids():
            return False
        return self.main.schemas.digest_of(number) == self.branch.schemas.digest_of(number)

    def _leads_on(self, line: TableStore, ids: tuple[int, ...]) -> bool:
        """Whether the living snapshots of a line from the base on are the base itself or continue it."""
        if self._is_base(line.snapshots.find(self.base_id)):
            return True
        if self.base is None or self.base_id + 1 not in ids or self.base_id in ids:
            return False
        try:
            return line.live_files.continues(self.base, line.snapshots.get(self.base_id + 1))
        except NotFoundError:  # nothing has kept the manifests of the base
            return False

    def _is_base(self, found: Snapshot | None) -> bool:
        if found is None:
            return False
        if self.fork is None:
            return is_same_commit(found, self.base)
        return is_fork_commit(self.fork, found, protected=self.base)


def _fork_snapshot(main: TableStore, branch: TableStore, fork: Fork) -> Snapshot | None:
    """The snapshot at which a branch began: that of its protecting tag, or a living one; None if neither is left."""
    if fork.snapshot_id is None:
        return None
    tagged = None if fork.protecting_tag is None else branch.snapshots.find_tag(fork.protecting_tag)
    protected = None if tagged is None else tagged.snapshot
    living = (line.snapshots.find(fork.snapshot_id) for line in (branch, main))
    found = [one for one in (protected, *living) if one is not None]
    return next((one for one in found if is_fork_commit(fork, one, protected=protected)), None)


def _common(main: TableStore, branch: TableStore, ours: tuple[int, ...], theirs: tuple[int, ...]) -> Snapshot | None:
    """The newest snapshot that both lines have, living or in a tag, for a branch of another engine."""
    found = {one.id: one for one in (*_tagged(branch), *_living(branch, theirs))}
    for snapshot in sorted((*_living(main, ours), *_tagged(main)), key=lambda one: one.id, reverse=True):
        if is_same_commit(snapshot, found.get(snapshot.id)):
            return snapshot
    if not ours:
        return None
    raise InvalidRequestError(
        f"{branch.name} was made by another engine, and has no snapshot in common with {main.name} any more: it is not "
        "known where it began. Write its rows into the table"
    )


def _living(table: TableStore, ids: tuple[int, ...]) -> list[Snapshot]:
    return [found for number in ids if (found := table.snapshots.find(number)) is not None]


def _tagged(table: TableStore) -> list[Snapshot]:
    return [tag.snapshot for tag in tags_of(table)]

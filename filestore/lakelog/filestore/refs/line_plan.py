"""How a branch takes the place of what its table has since: the files that are written and deleted, in order.

The newest snapshot of the table changes in one step where the branch's is not older: the snapshots behind the table's
newest are written from the last one down, then those below it are replaced. Schemas are written first, the others
afterwards. Where both lines have changed columns, the numbers of their schemas mean two things: then the
branch's newest schema gets a number that no line has used, so that writers which opened the table before notice.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.expire.references import history_of
from lakelog.filestore.metadata.forks import PROTECTING_PREFIX, Fork, read_fork
from lakelog.filestore.metadata.identity import carried_anyhow
from lakelog.filestore.metadata.line_change import DELETE, DELETE_TREE, WRITE, Act, LineChange, new_change
from lakelog.filestore.metadata.row_sources import kept_sources
from lakelog.filestore.metadata.snapshot import SCHEMA_DIGEST_KEY, CommitKind, Snapshot, is_same_commit
from lakelog.filestore.metadata.store import TableStore
from lakelog.filestore.metadata.tag_file import Tag
from lakelog.filestore.metadata.users import LOG_STATE_KEY, USERS_KEY, later_users, parse_users, users_to_json
from lakelog.filestore.options.tagging import TAG_CREATE_SUCCESS_FILE
from lakelog.filestore.refs.tags import tags_of
from lakelog.filestore.schema.schema import DIGEST_KEY
from lakelog.filestore.schema.stored_schema import stored_schema

_GENERATIONS_KEY = "lakelog.log-generations"  # of a log that the table had, see the protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """A table and a branch of it, as they are now: their living snapshots, and the last one that both have.

    `base_id` is 0 for a branch that began empty. `kept` are the snapshots of the table that stay, `new` those of the
    branch that it gets.
    """

    main: TableStore
    branch: TableStore
    fork: Fork | None
    base_id: int
    main_ids: tuple[int, ...]
    branch_ids: tuple[int, ...]

    @classmethod
    def of(cls, main: TableStore, branch: TableStore) -> Lines:
        """Read both. Raises InvalidRequestError for lines that have no snapshot in common, and for an empty branch."""
        fork = read_fork(main, branch.branch)
        ours, theirs = tuple(main.snapshots.ids()), tuple(branch.snapshots.ids())
        if not theirs:
            raise InvalidRequestError(f"{branch.name} has no snapshot that {main.name} could get: write it first")
        base_id = _common_id(main, branch, ours, theirs) if fork is None else fork.snapshot_id or 0
        return cls(main=main, branch=branch, fork=fork, base_id=base_id, main_ids=ours, branch_ids=theirs)

    @property
    def head(self) -> int:
        """The newest snapshot of the branch."""
        return self.branch_ids[-1]

    @property
    def kept(self) -> tuple[int, ...]:
        """The snapshots of the table up to the base; none where the branch has expired the one after it."""
        kept = tuple(number for number in self.main_ids if number <= self.base_id)
        after = [number for number in self.branch_ids if number > self.base_id]
        has_gap = not kept or kept[-1] != self.base_id or (bool(after) and after[0] != self.base_id + 1)
        return () if has_gap else kept

    @property
    def new(self) -> tuple[int, ...]:
        """The snapshots of the branch that the table gets."""
        return tuple(number for number in self.branch_ids if number > self.base_id or not self.kept)

    def newer_of_main(self) -> list[int]:
        """The snapshots of the table since the base that have changed rows."""
        found = (self.main.snapshots.find(number) for number in self.main_ids if number > self.base_id)
        return [one.id for one in found if one is not None and one.commit_kind is not CommitKind.COMPACT]

    def has_two_schemas(self) -> bool:
        """Whether the table has a schema that the branch has not."""
        theirs = set(self.branch.schemas.list_ids())
        return any(
            number not in theirs or self.main.schemas.digest_of(number) != self.branch.schemas.digest_of(number)
            for number in self.main.schemas.list_ids()
        )


def _common_id(main: TableStore, branch: TableStore, ours: tuple[int, ...], theirs: tuple[int, ...]) -> int:
    """The newest snapshot that both lines have, also in a tag, for a branch of another engine."""
    found = {one.id: one for line in (branch,) for one in (*_living(line, theirs), *_tagged(line))}
    for snapshot in sorted((*_living(main, ours), *_tagged(main)), key=lambda one: one.id, reverse=True):
        if is_same_commit(snapshot, found.get(snapshot.id)):
            return snapshot.id
    if not ours:
        return 0
    raise InvalidRequestError(
        f"{branch.name} was made by another engine, and has no snapshot in common with {main.name} any more: it is not "
        "known where it began. Write its rows into the table"
    )


def _living(table: TableStore, ids: tuple[int, ...]) -> list[Snapshot]:
    return [found for number in ids if (found := table.snapshots.find(number)) is not None]


def _tagged(table: TableStore) -> list[Snapshot]:
    return [tag.snapshot for tag in tags_of(table)]


def plan_change(lines: Lines, *, drops_branch: bool, now_millis: int) -> LineChange:
    """The change by which the table gets the branch's snapshots, tags and schemas."""
    schemas, schema_id, digest = _schema_acts(lines, now_millis)
    head = _head(lines, schema_id, digest)
    acts = [*schemas, *_snapshot_acts(lines, head), *_changelog_acts(lines), *_tag_acts(lines)]
    acts += _dropping_acts(lines) if drops_branch else _fork_acts(lines, head)
    return new_change(lines.branch.branch, acts, drops_branch=drops_branch)


def _below(table: TableStore, path: str) -> str:
    return path.removeprefix(f"{table.path}/")


def _schema_acts(lines: Lines, now_millis: int) -> tuple[list[Act], int | None, str | None]:
    """The schema files to write; with lines that differ the number and the digest of the schema for the head."""
    main, branch = lines.main, lines.branch
    acts: list[Act] = []
    ids = branch.schemas.list_ids()
    for number in ids:
        text = branch.file_io.read_bytes(branch.paths.schema(number)).decode()
        acts.append((WRITE, _below(main, main.paths.schema(number)), text))
    if not lines.has_two_schemas():
        return acts, None, None
    newest, digest = branch.schemas.get(ids[-1]), branch.schemas.digest_of(ids[-1])
    last = max(*ids, *main.schemas.list_ids()) + 1
    for number in range(ids[-1] + 1, last + 1):
        text = stored_schema(replace(newest, id=number, time_millis=now_millis)).to_json(base=digest)
        digest = json.loads(text)[DIGEST_KEY]
        acts.append((WRITE, _below(main, main.paths.schema(number)), text))
    return acts, last, digest


def _head(lines: Lines, schema_id: int | None, digest: str | None) -> Snapshot:
    """The branch's newest snapshot as the table gets it: with the users of both lines, each with its last batch."""
    head = lines.branch.snapshots.get(lines.head)
    carried = carried_anyhow(lines.branch, head)
    theirs = carried.properties
    ours = carried_anyhow(lines.main, lines.main.snapshots.latest()).properties
    users = later_users(parse_users(theirs), parse_users(ours))
    kept = {key: ours[key] for key in (LOG_STATE_KEY, _GENERATIONS_KEY) if key in ours}
    properties = {**kept, **theirs, **head.properties, **kept_sources(carried, ours)}
    if users:
        properties[USERS_KEY] = users_to_json(users)
    if schema_id is not None and digest is not None:
        properties[SCHEMA_DIGEST_KEY] = digest
    return replace(head, properties=properties, schema_id=head.schema_id if schema_id is None else schema_id)


def _snapshot_acts(lines: Lines, head: Snapshot) -> list[Act]:
    main, branch = lines.main, lines.branch
    newest = max(lines.main_ids, default=0)
    texts = {number: branch.file_io.read_bytes(branch.paths.snapshot(number)).decode() for number in lines.new}
    texts[head.id] = head.to_json()
    dropped = [number for number in lines.main_ids if number not in texts and number not in lines.kept]
    acts: list[Act] = []
    for number in sorted((one for one in texts if one > newest), reverse=True):
        acts.append((WRITE, _below(main, main.paths.snapshot(number)), texts[number]))
    acts.append((WRITE, _below(main, main.paths.latest_hint), str(head.id)))  # before the one that it names is deleted
    for number in sorted(dropped, reverse=True):
        found = main.snapshots.find(number)
        acts.append((DELETE, _below(main, main.paths.snapshot(number)), None if found is None else found.uuid))
    for number in sorted((one for one in texts if one <= newest), reverse=True):
        acts.append((WRITE, _below(main, main.paths.snapshot(number)), texts[number]))
    first = min((*lines.kept, *texts))
    acts.append((WRITE, _below(main, main.paths.earliest_hint), str(first)))
    return acts


def _changelog_acts(lines: Lines) -> list[Act]:
    """Changelogs that outlive their snapshots: the branch's since the base in place of the table's."""
    main, branch = lines.main, lines.branch
    ours, theirs = history_of(main, main.branch).changelogs, history_of(branch, branch.branch).changelogs
    taken = [number for number in theirs.ids() if number > lines.base_id]
    left = [number for number in ours.ids() if number <= lines.base_id]
    acts: list[Act] = []
    for number in taken:
        text = branch.file_io.read_bytes(branch.paths.changelog(number)).decode()
        acts.append((WRITE, _below(main, main.paths.changelog(number)), text))
    for number in set(ours.ids()) - {*left, *taken}:
        acts.append((DELETE, _below(main, main.paths.changelog(number)), None))
    ids = sorted({*left, *taken})
    for name, at in (("EARLIEST", 0), ("LATEST", -1)) if ids and acts else ():
        acts.append((WRITE, _below(main, f"{main.paths.changelog_dir}/{name}"), str(ids[at])))
    return acts


def _tag_acts(lines: Lines) -> list[Act]:
    """The tags of the branch since the base in place of the table's; those that keep the forks of branches stay."""
    main, branch = lines.main, lines.branch
    theirs = {tag.name: tag for tag in tags_of(branch) if tag.snapshot.id > lines.base_id and not _is_own(tag.name)}
    acts: list[Act] = []
    for tag in tags_of(main):
        if tag.snapshot.id > lines.base_id and tag.name not in theirs and not _is_own(tag.name):
            if TAG_CREATE_SUCCESS_FILE.of(main.schema.options):
                acts.append((DELETE, _below(main, main.paths.tag_success(tag.name)), None))
            acts.append((DELETE, _below(main, main.paths.tag(tag.name)), None))
    for name in theirs:
        text = branch.file_io.read_bytes(branch.paths.tag(name)).decode()
        acts.append((WRITE, _below(main, main.paths.tag(name)), text))
    return acts


def _is_own(name: str) -> bool:
    return name.startswith("lakelog-")


def _fork_acts(lines: Lines, head: Snapshot) -> list[Act]:
    """The branch goes on from its newest snapshot, which both lines have now, and keep by a tag."""
    main, branch, older = lines.main, lines.branch, lines.fork
    if older is None:
        return []
    tag = f"{PROTECTING_PREFIX}{head.id}-{uuid.uuid4().hex[:8]}"
    fork = replace(older, snapshot_id=head.id, commit_uuid=head.uuid, protecting_tag=tag, tag=None)
    own = branch.snapshots.get(head.id)
    acts: list[Act] = [
        (WRITE, _below(main, main.paths.tag(tag)), Tag(name=tag, snapshot=head).to_json()),
        (WRITE, _below(main, branch.paths.tag(tag)), Tag(name=tag, snapshot=own).to_json()),
        (WRITE, _below(main, branch.paths.fork_file), fork.to_json().decode()),
    ]
    if older.protecting_tag is not None:
        acts.append((DELETE, _below(main, branch.paths.tag(older.protecting_tag)), None))
        acts.append((DELETE, _below(main, main.paths.tag(older.protecting_tag)), None))
    return acts


def _dropping_acts(lines: Lines) -> list[Act]:
    acts: list[Act] = [(DELETE_TREE, _below(lines.main, lines.branch.paths.own_root), None)]
    if lines.fork is not None and lines.fork.protecting_tag is not None:
        acts.append((DELETE, _below(lines.main, lines.main.paths.tag(lines.fork.protecting_tag)), None))
    return acts

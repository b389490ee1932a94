"""How a branch replaces what its table has got since the base: the files that are written and deleted, in order.

The newest snapshot of the table changes in one step if the branch's is not older: the snapshots after the table's
newest are written from the last one down, then those before it are replaced. Schemas are written first, all other files
afterwards. If both lines have changed columns, one schema number means two schemas: then the branch's newest schema
gets a number that no line has used, so that writers which opened the table before notice. Only the head names that
number, not the branch: the next change gives the branch's number back to the head and its tags.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import replace

from lakelog.common.errors import ConflictError, CorruptDataError, NotFoundError
from lakelog.common.quoting import shown
from lakelog.filestore.expire.references import history_of
from lakelog.filestore.io.integrity import text_of
from lakelog.filestore.metadata.origins.restored import kept_sources, parse_restored
from lakelog.filestore.metadata.snapshots.line_change import DELETE, DELETE_TREE, WRITE, Act, LineChange, new_change
from lakelog.filestore.metadata.snapshots.snapshot import SCHEMA_DIGEST_KEY, Snapshot, is_same_commit
from lakelog.filestore.metadata.snapshots.snapshot_rewrites import rewritten
from lakelog.filestore.metadata.snapshots.tag_file import Tag
from lakelog.filestore.metadata.snapshots.users import (
    MERGED_PREFIX,
    PropertyKey,
    later_users,
    parse_users,
    users_to_json,
)
from lakelog.filestore.metadata.tables.forks import PROTECTING_PREFIX
from lakelog.filestore.metadata.tables.identity import carried_anyhow
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.tagging import TAG_CREATE_SUCCESS_FILE
from lakelog.filestore.refs.branches.lines import Lines
from lakelog.filestore.refs.tags.tags import tags_of
from lakelog.filestore.schema.schema import DIGEST_KEY
from lakelog.filestore.schema.stored_schema import stored_schema

_GENERATIONS_KEY = "lakelog.log-generations"  # of a log that the table had, see the protocol
WHOLE_LINE_MARK = "line-"  # in `lakelog.restored`, before the number of a head whose whole line was taken over


def plan_change(lines: Lines, *, drops_branch: bool, now_millis: int) -> LineChange:
    """The change by which the table gets the branch's snapshots, tags and schemas.

    Raises ConflictError for a tag that both lines have for different commits, and CorruptDataError for a damaged file.
    """
    tags = _tag_acts(lines)
    schemas, schema_id, digest = _schema_acts(lines, now_millis)
    head = _head(lines, schema_id, digest)
    acts = [*schemas, *_snapshot_acts(lines, head), *_changelog_acts(lines), *tags]
    acts += _dropping_acts(lines) if drops_branch else _fork_acts(lines, head, now_millis)
    return new_change(lines.branch.branch, acts, drops_branch=drops_branch)


def _below(table: TableStore, path: str) -> str:
    return path.removeprefix(f"{table.path}/")


def _text(line: TableStore, path: str) -> str:
    """The JSON text of a file of metadata, as it is. Raises CorruptDataError."""
    return text_of(line.file_io.read_bytes(path), path)


def _snapshot_text(line: TableStore, path: str) -> str:
    """As `_text`, for a snapshot's file: a damaged one is not taken over. Raises CorruptDataError."""
    text = _text(line, path)
    Snapshot.from_json(text, path=path)
    return text


def _schema_acts(lines: Lines, now_millis: int) -> tuple[list[Act], int | None, str | None]:
    """The schema files to write; where the lines differ, also number and digest for the head."""
    main, branch = lines.main, lines.branch
    acts: list[Act] = []
    ids = branch.schemas.list_ids()
    for number in ids:
        branch.schemas.get(number)  # a damaged one is not taken over
        acts.append((WRITE, _below(main, main.paths.schema(number)), _text(branch, branch.paths.schema(number))))
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
    kept = {key: ours[key] for key in (PropertyKey.LOG_STATE, _GENERATIONS_KEY) if key in ours}
    kept |= _merged_at_base(lines)
    properties = {**kept, **theirs, **head.properties, **kept_sources(carried, ours), **_restored(lines, ours, theirs)}
    if users:
        properties[PropertyKey.USERS] = users_to_json(users)
    if schema_id is not None and digest is not None:
        properties[SCHEMA_DIGEST_KEY] = digest
    return replace(head, properties=properties, schema_id=head.schema_id if schema_id is None else schema_id)


def _merged_at_base(lines: Lines) -> dict[str, str]:
    """The records of other branches that were merged into the table before this branch began: its rows include them.

    The branch's own copy of the base lacks these records, and later merges into the table are dropped.
    """
    main, found = lines.main, lines.main.snapshots.find(lines.base_id)
    if lines.fork is not None and lines.fork.protecting_tag is not None and not is_same_commit(found, lines.base):
        tag = main.snapshots.find_tag(lines.fork.protecting_tag)
        found = None if tag is None else tag.snapshot
    if found is None or not is_same_commit(found, lines.base):
        return {}
    carried = carried_anyhow(main, found).properties
    return {key: text for key, text in carried.items() if key.startswith(MERGED_PREFIX)}


def _restored(lines: Lines, ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """The restores of both lines, and the replacement as one where the older tags may be another line's."""
    found = {**parse_restored(ours), **parse_restored(theirs)}
    if not lines.has_base and lines.base_id:
        found[f"{WHOLE_LINE_MARK}{lines.head}"] = lines.head
    return {PropertyKey.RESTORED: json.dumps(found, separators=(",", ":"))} if found else {}


def _snapshot_acts(lines: Lines, head: Snapshot) -> list[Act]:
    main, branch = lines.main, lines.branch
    newest = max(lines.main_ids, default=0)
    texts = {number: _snapshot_text(branch, branch.paths.snapshot(number)) for number in lines.new}
    base = main.snapshots.find(lines.base_id) if lines.base_id in lines.kept else None
    if base is not None and (renamed := _with_schema_of_branch(lines, base)) is not None:
        texts[base.id] = renamed.to_json()
    texts[head.id] = head.to_json()
    texts = {number: _over_present(main, number, text) for number, text in texts.items()}
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


def _over_present(main: TableStore, number: int, text: str) -> str:
    """A snapshot's text as the table gets it: a branch lacks the changelog of the snapshot at which it began."""
    snapshot = Snapshot.from_json(text, path=main.paths.snapshot(number))
    for path in (main.paths.snapshot(number), main.paths.changelog(number)):
        with contextlib.suppress(NotFoundError, CorruptDataError):  # a damaged file is replaced
            present = main.file_io.read_bytes(path)
            if is_same_commit(Snapshot.from_json(present, path=path), snapshot):
                return rewritten(present, snapshot, path=path)
    return text


def _with_schema_of_branch(lines: Lines, snapshot: Snapshot) -> Snapshot | None:
    """The base as the table keeps it, with the branch's number for its schema; None if both lines have its schema.

    The base was then the head of an earlier change, and the number that it got there may now belong to another schema.
    """
    own = lines.base
    if own is None or not is_same_commit(snapshot, own) or lines.has_schema(snapshot.schema_id):
        return None
    digest = own.properties.get(SCHEMA_DIGEST_KEY) or lines.branch.schemas.digest_of(own.schema_id)
    properties = {**snapshot.properties, **({} if digest is None else {SCHEMA_DIGEST_KEY: digest})}
    return replace(snapshot, schema_id=own.schema_id, properties=properties)


def _changelog_acts(lines: Lines) -> list[Act]:
    """Changelogs that outlive their snapshots: those of the branch since the base replace those of the table.

    The table's changelogs up to the base are kept if the branch's changes continue after them.
    """
    main, branch = lines.main, lines.branch
    ours, theirs = history_of(main, main.branch).changelogs, history_of(branch, branch.branch).changelogs
    goes_on = lines.base_id + 1 in {*theirs.ids(), *lines.branch_ids} or lines.head == lines.base_id
    is_kept = lines.has_base or (goes_on and is_same_commit(ours.find(lines.base_id), lines.base))
    taken = [number for number in theirs.ids() if number > lines.base_id or not is_kept]
    left = [number for number in ours.ids() if number <= lines.base_id and is_kept]
    acts: list[Act] = []
    for number in taken:
        text = _over_present(main, number, _snapshot_text(branch, branch.paths.changelog(number)))
        acts.append((WRITE, _below(main, main.paths.changelog(number)), text))
    for number in set(ours.ids()) - {*left, *taken}:
        acts.append((DELETE, _below(main, main.paths.changelog(number)), None))
    ids = sorted({*left, *taken})
    for name, at in (("EARLIEST", 0), ("LATEST", -1)) if ids and acts else ():
        acts.append((WRITE, _below(main, f"{main.paths.changelog_dir}/{name}"), str(ids[at])))
    return acts


def _tag_acts(lines: Lines) -> list[Act]:
    """The tags of the branch replace those that the table has got since; tags that keep forks of branches are kept.

    The tags of the base and of the branch's snapshots since are taken over, or all tags if its whole line is. Raises
    ConflictError for a name that both lines have for different commits.
    """
    main, branch = lines.main, lines.branch
    there = {tag.name: tag for tag in tags_of(main)}
    ours = {name: tag.snapshot for name, tag in there.items() if not _is_own(name)}
    theirs = {tag.name: tag.snapshot for tag in tags_of(branch) if not _is_own(tag.name)}
    taken = {name: one for name, one in theirs.items() if one.id >= lines.base_id or not lines.has_base}
    _check_tags(lines, ours, taken)
    acts: list[Act] = []
    for name, snapshot in ours.items():
        if name not in taken and not _stays(lines, snapshot):
            if TAG_CREATE_SUCCESS_FILE.of(main.schema.options):
                acts.append((DELETE, _below(main, main.paths.tag_success(name)), None))
            acts.append((DELETE, _below(main, main.paths.tag(name)), None))
            del there[name]
    for name, tag in there.items():
        if (renamed := _with_schema_of_branch(lines, tag.snapshot)) is not None:
            acts.append((WRITE, _below(main, main.paths.tag(name)), replace(tag, snapshot=renamed).to_json()))
    for name in taken.keys() - ours.keys():
        acts.append((WRITE, _below(main, main.paths.tag(name)), _text(branch, branch.paths.tag(name))))
    return acts


def _check_tags(lines: Lines, ours: Mapping[str, Snapshot], taken: Mapping[str, Snapshot]) -> None:
    """Raise ConflictError for a name that both lines have for different commits."""
    main, branch = lines.main, lines.branch
    for name in sorted(ours.keys() & taken.keys()):
        if not is_same_commit(ours[name], taken[name]):
            raise ConflictError(
                f"{main.name} and {branch.name} both have a tag {shown(name)}, of different commits: snapshot "
                f"{ours[name].id} of {main.name} ({ours[name].uuid or 'no uuid'}) and snapshot {taken[name].id} of "
                f"{branch.name} ({taken[name].uuid or 'no uuid'}). Nothing was changed: rename or delete one of the "
                "two tags, then call this again"
            )


def _stays(lines: Lines, snapshot: Snapshot) -> bool:
    """Whether a tag of the table is kept: one of the base, or of an older snapshot that the branch does not contradict.

    If the table's line does not lead to the base, an older tag may be of either line: it is kept if the branch has
    neither another commit nor another schema of the same number.
    """
    if snapshot.id > lines.base_id:
        return False
    if lines.has_base:
        return True
    is_base = lines.base is not None and is_same_commit(snapshot, lines.base)
    is_older = snapshot.id < min(lines.base_id, lines.branch_ids[0])
    return (is_base or is_older) and lines.has_schema(snapshot.schema_id)


def _is_own(name: str) -> bool:
    return name.startswith("lakelog-")


def _fork_acts(lines: Lines, head: Snapshot, now_millis: int) -> list[Act]:
    """The branch continues from its newest snapshot, which both lines now have and keep by a tag."""
    main, branch, older = lines.main, lines.branch, lines.fork
    if older is None:
        return []
    tag = f"{PROTECTING_PREFIX}{head.id}-{uuid.uuid4().hex[:8]}"
    is_same = (older.snapshot_id, older.commit_uuid) == (head.id, head.uuid)  # the branch has nothing of its own
    taken_millis = older.taken_millis if is_same else now_millis
    place = replace(older, snapshot_id=head.id, commit_uuid=head.uuid, taken_millis=taken_millis)
    fork = replace(place, protecting_tag=tag, tag=None)
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

"""What a table shows of a source at one snapshot: a version, or the reason why there is none. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product

from lakelog.filestore.metadata.origins import (
    ORIGIN_MARK,
    STATEMENTS,
    Break,
    LineKey,
    ReadMode,
    Reason,
    RowHistory,
    RowSource,
    TableVersion,
    Versions,
    mode_of,
)
from lakelog.lineage.lines.versions import LineVersions

ABSENT, BROKEN = -1, -2  # in place of a version's key: not a source; a source that is shown at no version


class KnownVersions(Versions):
    """How versions compare, as the lines of the sources show: no row changes between the snapshots of a version."""

    def __init__(self, lines: Mapping[LineKey, LineVersions]) -> None:
        self.lines = lines

    def is_same(self, source: LineKey, mode: ReadMode, one: TableVersion | None, other: TableVersion | None) -> bool:
        """Whether two reads have read one version."""
        if one is None or other is None or one == other:
            return one == other
        return self.lines[source].key(one, mode) == self.lines[source].key(other, mode)

    def number(self, source: LineKey, mode: ReadMode, version: TableVersion) -> int:
        """The first snapshot of a version."""
        versions = self.lines[source]
        return versions.first(versions.key(version, mode)).snapshot_id

    def unseen(self, source: LineKey, writer: object, start: TableVersion, end: TableVersion) -> str | None:
        """How a stream has passed an overwrite of its source.

        It may also have passed one if the source was rolled back since: nothing that lives records its snapshots.
        """
        versions = self.lines[source]
        if start.snapshot_id < end.snapshot_id and versions.has_lost(end):
            return (
                f"{writer} has read snapshot {end.snapshot_id} of the source, which was rolled back: whether it passed "
                "an overwrite on the way is not known"
            )
        passed = versions.unseen_between(start, end)
        if passed is None:
            return None
        named = f"snapshot {passed.last}"
        if passed.first < passed.last:
            named = f"one of the snapshots {passed.first} to {passed.last}"
        return f"{named} of the source overwrote rows, and {writer} did not see it"


def shown_version(
    history: RowHistory, key: LineKey, versions: LineVersions, *, number: int, origins: Collection[str]
) -> tuple[int, Break | None]:
    """The key of the version that snapshot `number` shows of a source, or why there is none.

    `origins` has those of living branches.
    """
    source = history.state.sources.get(key)
    if source is None:
        return ABSENT, None
    if source.broken is not None:
        return BROKEN, source.broken
    settled = _settled(history, key, source, origins)
    keys: dict[int, list[str]] = {}
    for name, reader in source.readers.items():
        if name in settled:
            continue
        found = reader.broken or reader.passing
        if found is not None:
            return BROKEN, found
        if reader.last is not None:
            keys.setdefault(versions.key(reader.last, mode_of(name)), []).append(name)
    if len(keys) > 1:
        return BROKEN, Break(number, Reason.MIXED, _mixed(source, keys, versions))
    if not keys:
        return ABSENT, None
    (shown,) = keys
    if versions.is_shown(shown):
        return shown, None
    end = versions.first(shown).snapshot_id
    details = f"no known snapshot of the source shows to batch reads the rows that streams have read up to {end}"
    return BROKEN, Break(number, Reason.WAITING, details)


def _mixed(source: RowSource, keys: Mapping[int, Sequence[str]], versions: LineVersions) -> str:
    """Which readers show which version."""
    ends = []
    for key in sorted(keys):
        names = [
            f"the statement in snapshot {source.readers[name].snapshot_id}"
            if name == STATEMENTS
            else str(source.writer(name))
            for name in keys[key][:3]
        ]
        ends.append(f"snapshot {versions.first(key).snapshot_id} by {', '.join(names)}")
    return "; ".join(ends)


def _settled(history: RowHistory, key: LineKey, source: RowSource, origins: Collection[str]) -> set[str]:
    """The readers whose rows other readers of the same job have made newer."""
    if not any(ORIGIN_MARK in name for name in source.readers):
        return set()
    brought = {name: source.writer(name).origin for name in source.readers}
    deleted = {one for one in brought.values() if one is not None and one not in origins}
    names = [name for name, origin in brought.items() if origin in deleted]
    pairs = {*product(names, brought), *product(brought, names)}
    return {one for one, other in pairs if one != other and history.is_settled(key, source, one, other, deleted)}

"""What a snapshot shows of its sources according to its own property, for when the earlier snapshots have expired."""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.filestore.metadata.origins import (
    ALL_READERS,
    STATEMENTS,
    LineKey,
    ReaderState,
    ReadVersion,
    RowSource,
    RowSources,
    SourceBreak,
)
from lakelog.lineage.lines.line_state import (
    ALL_STREAMS,
    Break,
    LineState,
    Reader,
    Reading,
    Reason,
    SourceState,
    unseen_by,
)
from lakelog.lineage.lines.lines import named_writer
from lakelog.lineage.lines.versions import LineVersions
from lakelog.lineage.records.record import ReadMode, TableVersion


def state_of(sources: RowSources, versions: Mapping[LineKey, LineVersions]) -> LineState:
    """The state after a snapshot. `versions` has the versions of each source."""
    return LineState(
        sources={key: _state(source, versions[key]) for key, source in sources.sources.items()},
        left={(key, _reader(name)) for key, name in sources.left},
        unknown=_break(sources.unknown),
    )


def _reader(name: str) -> Reader:
    """A reader by its name; for all streams together, the reader that stands for them."""
    if name == ALL_READERS:
        return ALL_STREAMS
    mode, number, user = name.split(" ", 2)
    return Reader(user, ReadMode(mode), int(number))


def _state(source: RowSource, versions: LineVersions) -> SourceState:
    state = SourceState(broken=_break(source.broken))
    for name, found in source.readers.items():
        if name == STATEMENTS:
            state.broken = state.broken or _break(found.broken)
            if found.last is not None:
                state.once[versions.key(_version(found.last))] = found.snapshot_id
            continue
        reader = _reader(name)
        state.readings[reader] = Reading(
            job=found.job,
            last=None if found.last is None else versions.key(_version(found.last), reader.mode),
            broken=_break(found.broken) or _unseen(found, reader.user, versions),
            passing=_break(found.passing),
            begun=None if found.since is None else versions.key(_version(found.since), reader.mode),
            is_late=found.is_late,
        )
    return state


def _unseen(reader: ReaderState, user: str, versions: LineVersions) -> Break | None:
    """The break of a stream that has passed an overwrite of its source in a snapshot that has expired."""
    if reader.since is None or reader.last is None:
        return None
    writer = named_writer(reader.job, user)
    return unseen_by(writer, versions, _version(reader.since), _version(reader.last), reader.snapshot_id)


def _version(version: ReadVersion) -> TableVersion:
    return TableVersion(snapshot_id=version.snapshot_id, commit=version.commit)


def _break(found: SourceBreak | None) -> Break | None:
    return None if found is None else Break(Reason(found.why), found.snapshot_id, found.details)

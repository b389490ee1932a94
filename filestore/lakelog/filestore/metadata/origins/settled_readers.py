"""Readers of branches that were merged and deleted: they do not continue, so other readers of their job replace them.

Otherwise a table whose branches are created, merged and deleted each night would get one more reader each night, and
show their source at several versions forever. Pure. Source: docs/rfcs/0039-snapshot-lineage.md, "Changed rows".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lakelog.filestore.metadata.origins.row_sources import ReaderState, RowSource, WriterName


def settle(source: RowSource, deleted: Collection[str]) -> None:
    """Drop the readers of deleted branches, by their origins, if another reader of the job continues from them, or
    passes them.

    A reader that continues counts as begun where the first of them began.
    """
    for name in sorted(source.readers, key=lambda one: source.readers[one].snapshot_id):
        older = source.readers[name]
        if _writer(name, older).origin not in deleted:
            continue
        for other, newer in source.readers.items():
            if other == name or not _is_same(name, older, other, newer):
                continue
            if _writer(other, newer).origin is not None and newer.since == older.last:
                newer.since = older.since
            elif older.is_late or not _is_before(older, newer):
                continue
            del source.readers[name]
            break


def is_late(name: str, readers: Mapping[str, ReaderState]) -> bool:
    """Whether the state of a reader that a merge brings is older than what the same job has read in the table."""
    brought = readers[name]
    writer = _writer(name, brought)
    return writer.origin is not None and any(
        other != name and writer.is_same_job(_writer(other, one)) and _is_before(brought, one)
        for other, one in readers.items()
    )


def _is_same(name: str, older: ReaderState, other: str, newer: ReaderState) -> bool:
    """Whether two readers are streams of one job, and neither is broken."""
    kinds = [one.split(" ", 2)[:2] for one in (name, other)]
    is_broken = any(one.broken or one.passing or one.last is None for one in (older, newer))
    is_stream = kinds[0] == kinds[1] and kinds[0][0] == "stream"
    return is_stream and not is_broken and _writer(name, older).is_same_job(_writer(other, newer))


def _is_before(one: ReaderState, other: ReaderState) -> bool:
    return one.last is not None and other.last is not None and one.last.snapshot_id < other.last.snapshot_id


def _writer(name: str, reader: ReaderState) -> WriterName:
    return WriterName(name.split(" ", 2)[-1], reader.job)

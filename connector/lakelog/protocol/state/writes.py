"""Writes of `Table.writer`: batch statements whose prepared commit is in the headers of their transactions.

The user of a writer has the last identifiers of its sources as the digest of its last write: {source: identifier}.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from lakelog.common.errors import CorruptDataError
from lakelog.common.json_fields import parse_object, whole
from lakelog.common.quoting import cause, shown
from lakelog.filestore.metadata.snapshots import BATCH_COMMIT_IDENTIFIER, CommitUser
from lakelog.protocol.state.header import WRITE_PREFIX, CommitHeader
from lakelog.protocol.state.prepared import PreparedCommit, user_of

WRITER_PREFIX = "writer-"
_NAME = re.compile(rf"{WRITE_PREFIX}([0-9]{{19}})-of-(.+)", re.DOTALL)


def writer_user(name: str) -> str:
    """The user of a writer in the table's history."""
    return f"{WRITER_PREFIX}{name}"


def write_name(user: str, number: int) -> str:
    """The name of a write: those of one user are in the order of their numbers."""
    return f"{WRITE_PREFIX}{number:019d}-of-{user}"


def is_write(name: str) -> bool:
    """Whether a name is that of a write; else it is that of a prepared commit."""
    return _NAME.fullmatch(name) is not None


def batch_of(name: str) -> tuple[str, int]:
    """The user and the identifier of a write, or of the statement whose prepared commit has this name.

    Raises CorruptDataError for other names.
    """
    found = _NAME.fullmatch(name)
    return (user_of(name), BATCH_COMMIT_IDENTIFIER) if found is None else (found[2], int(found[1]))


def prepared_write(header: CommitHeader) -> PreparedCommit:
    """What the header of a write says, in place of the file of a prepared commit: it names the parts of all buckets.

    Raises CorruptDataError for a header that names itself otherwise.
    """
    if header.statement != write_name(header.user, header.identifier):
        raise CorruptDataError(
            f"the log has write {header.identifier} of {shown(header.user)} under the name {shown(header.statement)}: "
            "only lakelog may write the topic"
        )
    return PreparedCommit(
        table_uuid=header.table_uuid,
        topic_id="",
        user=header.user,
        operation="WRITE",
        schema_id=header.schema_id,
        base_snapshot_id=header.base_snapshot_id,
        time_millis=0,
        row_count=header.record_count,
        parts=header.parts,
        lineage=header.lineage,
        identifier=header.identifier,
        source_digest=header.source_digest,
    )


def digest_of_sources(sources: Mapping[str, int]) -> str | None:
    """The last identifiers of a writer's sources, as the digest of its last write."""
    return json.dumps(dict(sorted(sources.items()))) if sources else None


def sources_of(last: CommitUser | None) -> dict[str, int]:
    """The last identifier of each source of a writer, from its last write. Raises CorruptDataError."""
    if last is None or last.digest is None:
        return {}
    try:
        fields = parse_object(last.digest)
        return {source: whole(fields, source) for source in fields}
    except (KeyError, ValueError) as error:
        raise CorruptDataError(f"the identifiers of a writer are not readable: {cause(error)}") from error

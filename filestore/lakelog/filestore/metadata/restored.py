"""The restores of a table, in the snapshot property `lakelog.restored`: {protecting tag: id of the restore's snapshot}.

See `lakelog.filestore.refs.restore_tags`.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.common.errors import CorruptDataError
from lakelog.common.json_fields import COUNT, parse_object, whole
from lakelog.common.quoting import cause

RESTORED_KEY = "lakelog.restored"


def parse_restored(properties: Mapping[str, str]) -> dict[str, int]:
    """The restores by their protecting tags; empty for a table that was never restored. Raises CorruptDataError."""
    try:
        found = parse_object(properties.get(RESTORED_KEY, "{}"))
        return {tag: whole(found, tag, COUNT) for tag in found}
    except (KeyError, ValueError) as error:
        raise CorruptDataError(f"snapshot property {RESTORED_KEY} is not readable: {cause(error)}") from error

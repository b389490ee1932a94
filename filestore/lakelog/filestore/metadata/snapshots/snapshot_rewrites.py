"""Replaces the file of a snapshot that is there: nothing that the file says of its commit is lost.

A copy of a snapshot, such as that of a branch, may lack what its file has: a copy keeps no changelog, and lakelog does
not know all keys of other engines. So only the properties and the number of the schema are replaced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any  # Any: parsed JSON

from lakelog.common.json_fields import parse_object
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot, is_same_commit

_REPLACED = ("properties", "schema_id")


def rewritten(present: bytes, snapshot: Snapshot, *, path: str) -> str:
    """The text that replaces the file at `path`, which holds `present`.

    If the file is of another commit, the text is that of the snapshot alone. Otherwise everything in the file stays but
    its properties and the number of its schema, and what it lacks is added. Raises CorruptDataError.
    """
    given: Mapping[str, Any] = {}
    there = Snapshot.from_json(present, path=path)
    if is_same_commit(there, snapshot):
        given = parse_object(present)
        found = {one.name: getattr(there, one.name) for one in fields(there) if one.name not in _REPLACED}
        snapshot = replace(snapshot, **{name: value for name, value in found.items() if value is not None})
    return json.dumps({**given, **parse_object(snapshot.to_json())}, indent=2)

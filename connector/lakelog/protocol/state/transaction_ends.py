"""Where transactions end that a snapshot has taken in together: readers that stopped between two of them heal there.

Source: docs/rfcs/0031-healing.md, "Between two snapshots".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakelog.common.errors import CorruptDataError
from lakelog.common.json_fields import COUNT, items, member, number_of, parse_object, whole
from lakelog.common.quoting import cause
from lakelog.filestore.metadata.snapshots import PropertyKey, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnd:
    """The end of a transaction in a bucket: its last record's offset plus one.

    The rows of later transactions have sequence numbers from `sequence` on, those of earlier ones smaller ones.
    """

    offset: int
    sequence: int


def ends_json(ends: Mapping[int, Sequence[TransactionEnd]], *, snapshot_id: int) -> str:
    """The value of the property `lakelog.log-ends` of a snapshot with this number.

    It is {"snapshot": number, "ends": {bucket: [[offset, sequence], ...]}}, in the order of the log.
    """
    found = {str(bucket): [[at.offset, at.sequence] for at in one] for bucket, one in sorted(ends.items())}
    return json.dumps({"snapshot": snapshot_id, "ends": found}, separators=(",", ":"))


def ends_in(snapshot: Snapshot) -> dict[int, tuple[TransactionEnd, ...]]:
    """The ends of all transactions but the last one, for the buckets of which a snapshot took in more than one.

    An earlier lakelog copies the property to its next snapshot, which it does not describe. Raises CorruptDataError.
    """
    text = snapshot.properties.get(PropertyKey.LOG_ENDS)
    if text is None:
        return {}
    try:
        fields = parse_object(text)
        ends = member(fields, "ends")
        if whole(fields, "snapshot") != snapshot.id:
            return {}
        return {number_of(bucket): tuple(_parse(one) for one in items(ends, bucket)) for bucket in ends}
    except (KeyError, ValueError) as error:
        raise CorruptDataError(
            f"property {PropertyKey.LOG_ENDS} of snapshot {snapshot.id} is not readable: {cause(error)}"
        ) from error


def _parse(given: object) -> TransactionEnd:
    offset, sequence = items({"end": given}, "end", length=2)
    found = {"offset": offset, "sequence": sequence}
    return TransactionEnd(offset=whole(found, "offset", COUNT), sequence=whole(found, "sequence", COUNT))

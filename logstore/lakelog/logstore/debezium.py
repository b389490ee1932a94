"""Changes as debezium-json, in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakelog.common.types import DataField
from lakelog.logstore.options import ChangelogMode


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRecords:
    """Records ready for the topic: same length, log order. `row_count` counts the rows they hold."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes]
    row_count: int

    def __len__(self) -> int:
        return len(self.values)


def encode_changes(
    rows: pa.Table,
    kinds: pa.Array | None,
    fields: Sequence[DataField],
    key_fields: Sequence[str],
    mode: ChangelogMode,
) -> EncodedRecords:
    """The changes as debezium-json records, in the rows' order.

    `kinds` holds RowKind values as int8; None means that every row is an insert. Without
    `key_fields` keys are null. A -U directly followed by the +U of the same key is one `u`; other +I and +U
    are `c`, -D and lone -U are `d`. Mode UPSERT drops -U.
    """
    raise NotImplementedError


def decode_changes(
    keys: Sequence[bytes | None] | None, values: Sequence[bytes | None], fields: Sequence[DataField]
) -> tuple[pa.Table, pa.Array]:
    """The rows of debezium-json records and their kinds (int8), in log order.

    `u` gives -U and +U (or +U alone without a before image), `c` and `r` give +I, `d` gives -D, tombstones
    give nothing. Raises CorruptDataError for what is no such record.
    """
    raise NotImplementedError

"""The codec of a log: what changes are in its records. There is one for each `log.format`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from lakelog.common.types import DataField
from lakelog.logstore.codec import debezium
from lakelog.logstore.codec.encoded_records import Changes, EncodedRecords
from lakelog.logstore.codec.envelope import Name
from lakelog.logstore.options import ChangelogMode, LogFormat


class LogCodec(Protocol):
    """Turns changes into records, and records into changes."""

    def encode_changes(  # the rows, and how the table has them
        self,
        rows: pa.Table,
        kinds: pa.Array | pa.ChunkedArray | None,
        fields: Sequence[DataField],
        key_fields: Sequence[str],
        mode: ChangelogMode,
        *,
        update_bytes_max: int | None = None,
    ) -> EncodedRecords:
        """The changes as records, in the rows' order; `kinds` None means that every row is an insert.

        An update whose record would have more than `update_bytes_max` bytes with its key is a delete and an insert.
        """

    def decode_records(
        self, values: Sequence[bytes | None], fields: Sequence[DataField], *, name: Name | None = None
    ) -> Changes:
        """The changes in the values of records. Raises CorruptDataError, which names a record by `name`."""


_CODECS: Mapping[LogFormat, LogCodec] = {LogFormat.DEBEZIUM_JSON: debezium}


def codec_of(form: LogFormat) -> LogCodec:
    """The codec of a log with this `log.format`."""
    return _CODECS[form]

"""The timestamps of partitions, from their values, for the expiry of partitions. Pure.

Source: Paimon spec, "Expire partitions"; Paimon, `PartitionTimeExtractor`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed
from lakelog.filestore.encoding.binary_row import deserialize_row, to_scalar
from lakelog.filestore.options.foreign import OptionUse, check_foreign_options
from lakelog.filestore.options.layout import PARTITION_TIMESTAMP_FORMATTER, PARTITION_TIMESTAMP_PATTERN
from lakelog.filestore.schema.schema import TableSchema

_DIRECTIVES = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "SSS": "%f"}
_FORMAT_PART = re.compile(r"'([^']*)'|([A-Za-z])\2*|[^A-Za-z']+")
_VARIABLE = re.compile(r"\$(\w+)")


def partition_time(schema: TableSchema, partition: bytes) -> datetime | None:
    """The timestamp (UTC) of a serialized partition; None if a value is null or not a time.

    It is that of the first partition column, or of `partition.timestamp-pattern` with the values of the columns that it
    names, such as `$day $hour:00:00`. Raises InvalidRequestError for an invalid pattern or formatter.
    """
    fields = schema.partition_fields
    values = deserialize_row([field.type for field in fields], partition)
    strings = {
        field.name: None if value is None else to_scalar(field.type, value).cast(pa.string()).as_py()
        for field, value in zip(fields, values, strict=True)
    }
    pattern = PARTITION_TIMESTAMP_PATTERN.of(schema.options) or f"${fields[0].name}"
    names = _VARIABLE.findall(pattern)
    for name in names:
        if name not in strings:
            raise InvalidRequestError(
                f"{PARTITION_TIMESTAMP_PATTERN.key}={pattern!r} names {name!r}; the partition columns "
                f"are {listed(strings)}"
            )
    if any(strings[name] is None for name in names):
        return None
    text = _VARIABLE.sub(lambda found: strings[found[1]] or "", pattern)
    return _parsed(text, PARTITION_TIMESTAMP_FORMATTER.of(schema.options))


def _parsed(text: str, formatter: str | None) -> datetime | None:
    forms = ["%Y-%m-%d %H:%M:%S", "%Y-%m-%d"] if formatter is None else [python_format(formatter)]
    for form in forms:
        try:
            return datetime.strptime(text.replace("T", " ") if formatter is None else text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None


def python_format(formatter: str) -> str:
    """A date format of Java as one of Python. Raises InvalidRequestError for unknown letters."""
    parts: list[str] = []
    for found in _FORMAT_PART.finditer(formatter):
        word = found[0]
        if found[1] is not None:
            parts.append(found[1].replace("%", "%%"))
        elif found[2] is None:
            parts.append(word.replace("%", "%%"))
        elif word in _DIRECTIVES:
            parts.append(_DIRECTIVES[word])
        else:
            raise InvalidRequestError(
                f"{PARTITION_TIMESTAMP_FORMATTER.key}={formatter!r}: {word!r} is not known; known are "
                f"{', '.join(_DIRECTIVES)}"
            )
    return "".join(parts)


def expired_partitions(
    schema: TableSchema, partitions: Sequence[bytes], *, age_millis: int, now_millis: int
) -> set[bytes]:
    """The partitions whose timestamp is more than `age_millis` ago.

    Raises UnsupportedError for a table in which the age of a partition does not follow from its values.
    """
    check_foreign_options(schema.options, OptionUse.EXPIRE_PARTITIONS)
    limit = (now_millis - age_millis) / 1000
    times = ((partition, partition_time(schema, partition)) for partition in partitions)
    return {partition for partition, time in times if time is not None and time.timestamp() < limit}

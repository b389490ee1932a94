"""The placeholder of a long value that an update has not changed (PostgreSQL's TOAST).

It takes the form of the column's type. Source: Debezium's PostgreSQL connector, `UnchangedToastedPlaceholder`. An array
of text, UUIDs or binaries has the placeholder as its one element; an array of numbers or booleans has one element for
each byte of the placeholder. Not found are arrays of numbers under `decimal.format=NUMERIC`, which depend on a scale.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Sequence

import polars as pl

from lakelog.logstore.codec.json_value import Json

UNAVAILABLE = "__debezium_unavailable_value"

_HEX = "hex:"  # the connector's way to give bytes
_ELEMENTS_LOOKED_AT = 8


def marks_of_unavailable(text: str) -> tuple[Json, ...]:
    """The forms of the placeholder; `text` is the connector's option `unavailable.value.placeholder`."""
    data = _bytes_of(text)
    word, binary = data.decode(errors="replace"), _base64(data)
    name_based = str(uuid.UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3))
    hstore = {word: word}
    return (
        word,
        binary,
        base64.urlsafe_b64encode(data).decode(),
        data.hex(),
        json.dumps(hstore, ensure_ascii=False, separators=(",", ":")),
        hstore,
        [word],
        [binary],
        [name_based],
        *_by_byte(data),
    )


def _by_byte(data: bytes) -> list[list[Json]]:
    """The lists with an element for each byte: numbers, booleans, decimals of a fixed and of a variable scale."""
    numbers = [byte - 256 if byte > 127 else byte for byte in data]
    unscaled = [_base64(bytes([byte])) for byte in data]
    return [
        [*numbers],
        [float(number) for number in numbers],
        [byte != 0 for byte in data],
        [*unscaled],
        [{"scale": 0, "value": value} for value in unscaled],
    ]


def _bytes_of(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix(_HEX)) if text.startswith(_HEX) else text.encode()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def is_unavailable(value: Json, marks: Sequence[Json]) -> bool:
    """Whether a value is the placeholder."""
    return isinstance(value, str | list | dict) and any(value == mark and _is_alike(value, mark) for mark in marks)


def _is_alike(value: Json, mark: Json) -> bool:
    """Whether equal values are of one kind: a list of ones equals one of `true`."""
    return not isinstance(value, list) or isinstance(value[0], bool) == isinstance(mark[0], bool)


def may_be_unavailable(values: Sequence[bytes], text: str) -> Sequence[bool]:
    """Which records may hold the placeholder in one of its forms."""
    if not values:
        return []
    texts = [mark for mark in marks_of_unavailable(text) if isinstance(mark, str)]
    texts += [mark[0] for mark in marks_of_unavailable(text) if isinstance(mark, list) and len(mark) == 1]
    for elements in _by_byte(_bytes_of(text)):
        shown = [json.dumps(one, separators=(",", ":")) for one in elements[:_ELEMENTS_LOOKED_AT]]
        texts += [separator.join(shown) for separator in (",", ", ")]
    value = pl.col("value").bin
    frame = pl.DataFrame({"value": pl.Series(values, dtype=pl.Binary)})
    forms = [value.contains(form.encode()) for form in texts if isinstance(form, str)]
    found: list[bool] = frame.select(pl.any_horizontal(forms)).to_series().to_list()
    return found

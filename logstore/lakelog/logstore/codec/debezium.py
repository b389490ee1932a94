"""Changes as debezium-json records, and back, in columns.

A record's value is `{"before":<row or null>,"after":<row or null>,"op":"c|u|d"}`, a row is an object of all columns,
the key is an object of the key columns, or absent in tables without a key. Values as `json_text` writes them.
An update with both images is one `u`; an after image alone is `c`, because Flink's reader refuses `u` without a
before image; a delete is `d` with the full row. Source: Flink's documentation, "Debezium Format".
A record whose value is null holds no change: readers skip it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.types import DataField, RowKind
from lakelog.logstore.codec.encoded_records import NO_RECORDS, Changes, EncodedRecords
from lakelog.logstore.codec.envelope import (
    DELETE_PREFIX,
    DELETE_SUFFIX,
    INSERT_PREFIX,
    INSERT_SUFFIX,
    UPDATE_MIDDLE,
    UPDATE_PREFIX,
    UPDATE_SUFFIX,
    Name,
    read_changes,
)
from lakelog.logstore.codec.json_text import TEXT, joined, row_json
from lakelog.logstore.options import ChangelogMode

_CHUNK_ROWS = 100_000
_ADD, _DELETE, _UPDATE = range(3)  # the places of their texts in these
_PREFIXES = (INSERT_PREFIX, DELETE_PREFIX, UPDATE_PREFIX)
_MIDDLES = (b"", b"", UPDATE_MIDDLE)
_SUFFIXES = (INSERT_SUFFIX, DELETE_SUFFIX, UPDATE_SUFFIX)


def encode_changes(
    rows: pa.Table,
    kinds: pa.Array | pa.ChunkedArray | None,
    fields: Sequence[DataField],
    key_fields: Sequence[str],
    mode: ChangelogMode,
    *,
    update_bytes_max: int | None = None,
) -> EncodedRecords:
    """The changes as debezium-json records, in the rows' order.

    `kinds` holds RowKind values as int8; None means that every row is an insert. A -U directly followed by the +U of
    the same key is one `u`; other +I and +U are `c`, -D and lone -U are `d`. A pair whose `u` would have more than
    `update_bytes_max` bytes with its key is a `d` and a `c`. Mode UPSERT drops -U. `mode` is UPSERT or ALL. Without
    `key_fields` keys are null, and each row is a record: neighbours may belong to different updates.
    """
    assert mode is not ChangelogMode.AUTO, "resolve the mode with options.changelog_mode"
    codes = _codes(kinds, rows.num_rows)
    if mode is ChangelogMode.UPSERT and (codes == RowKind.UPDATE_BEFORE).any():
        kept = codes != RowKind.UPDATE_BEFORE
        rows, codes = rows.filter(pa.array(kept)), codes[kept]
    chunks = [
        _encode_chunk(rows.slice(start, end - start), codes[start:end], fields, key_fields, update_bytes_max)
        for start, end in _chunks(codes)
    ]
    if not chunks:
        return NO_RECORDS
    keys = pa.chunked_array([keys for keys, _ in chunks if keys is not None], TEXT) if key_fields else None
    return EncodedRecords.of(keys, pa.chunked_array([values for _, values in chunks], TEXT), row_count=len(codes))


def _chunks(codes: npt.NDArray[np.int8]) -> Iterator[tuple[int, int]]:
    """Ranges of rows, small enough that their JSON takes little memory, which never separate a -U from its +U."""
    start = 0
    while start < len(codes):
        end = min(start + _CHUNK_ROWS, len(codes))
        if codes[end - 1 : end + 1].tolist() == [RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER]:
            end += 1
        yield start, end
        start = end


def _encode_chunk(
    rows: pa.Table,
    codes: npt.NDArray[np.int8],
    fields: Sequence[DataField],
    key_fields: Sequence[str],
    update_bytes_max: int | None,
) -> tuple[pa.Array | None, pa.Array]:
    keys = _keys(rows, fields, key_fields)
    is_add = (codes == RowKind.INSERT) | (codes == RowKind.UPDATE_AFTER)
    if is_add.all():
        return keys, row_json(rows, fields, before=INSERT_PREFIX.decode(), after=INSERT_SUFFIX.decode())
    strings = row_json(rows, fields)
    pair_starts = _pair_starts(codes, keys)
    if keys is not None and update_bytes_max is not None:
        pair_starts = pair_starts[_update_bytes(strings, keys, pair_starts) <= update_bytes_max]
    if keys is not None and len(pair_starts):
        keys = keys.take(pa.array(np.delete(np.arange(len(codes)), pair_starts + 1)))
    return keys, _envelopes(strings, is_add, pair_starts)


def decode_changes(
    values: Sequence[bytes | None], fields: Sequence[DataField], *, name: Name | None = None
) -> tuple[pa.Table, pa.Array]:
    """The rows of debezium-json records and their kinds (int8), in log order.

    `u` gives -U and +U (or +U alone without a before image), `c` and `r` give +I, `d` gives -D, tombstones
    give nothing. Keys are not needed: every image holds its key columns. `name` names a record by its number, for
    errors. Raises CorruptDataError for other records, UnsupportedError for a truncation.
    """
    changes = decode_records(values, fields, name=name)
    return changes.rows, pa.array(changes.kinds)


def decode_records(values: Sequence[bytes | None], fields: Sequence[DataField], *, name: Name | None = None) -> Changes:
    """As `decode_changes`, with the number of the record that each row came from."""
    describe = name or "record {}".format
    records = [value for value in values if value is not None]
    if not records:
        nothing = to_arrow_schema(fields).empty_table()
        return Changes(nothing, np.zeros(0, np.int8), np.zeros(0, np.int64))
    if len(records) == len(values):
        return read_changes(records, fields, describe)
    numbers = np.array([number for number, value in enumerate(values) if value is not None], np.int64)
    changes = read_changes(records, fields, lambda number: describe(int(numbers[number])))
    return Changes(changes.rows, changes.kinds, numbers[changes.records])


def _codes(kinds: pa.Array | pa.ChunkedArray | None, row_count: int) -> npt.NDArray[np.int8]:
    if kinds is None:
        return np.full(row_count, RowKind.INSERT, np.int8)
    assert len(kinds) == row_count, f"{len(kinds)} kinds for {row_count} rows"
    return np.asarray(kinds).astype(np.int8, copy=False)


def _keys(rows: pa.Table, fields: Sequence[DataField], key_fields: Sequence[str]) -> pa.Array | None:
    if not key_fields:
        return None
    by_name = {field.name: field for field in fields}
    return row_json(rows, [by_name[name] for name in key_fields])


def _pair_starts(codes: npt.NDArray[np.int8], keys: pa.Array | None) -> npt.NDArray[np.int64]:
    """Where a -U is directly followed by the +U of its key. Without keys there is no such place."""
    if keys is None:
        return np.zeros(0, np.int64)
    is_pair = (codes[:-1] == RowKind.UPDATE_BEFORE) & (codes[1:] == RowKind.UPDATE_AFTER)
    starts = np.flatnonzero(is_pair)
    if not len(starts):
        return starts
    same_key: npt.NDArray[np.bool_] = np.asarray(pc.equal(keys.take(pa.array(starts)), keys.take(pa.array(starts + 1))))
    return starts[same_key]


def _update_bytes(strings: pa.Array, keys: pa.Array, pair_starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The bytes of the record of each pair, with its key."""
    sizes, key_sizes = np.asarray(pc.binary_length(strings)), np.asarray(pc.binary_length(keys))
    envelope = len(UPDATE_PREFIX) + len(UPDATE_MIDDLE) + len(UPDATE_SUFFIX)
    total: npt.NDArray[np.int64] = sizes[pair_starts] + sizes[pair_starts + 1] + envelope + key_sizes[pair_starts]
    return total


def _envelopes(strings: pa.Array, is_add: npt.NDArray[np.bool_], pair_starts: npt.NDArray[np.int64]) -> pa.Array:
    """One value a record: pairs as `u` in the place of their first row."""
    places = np.delete(np.arange(len(strings)), pair_starts + 1)
    forms = np.where(is_add, _ADD, _DELETE)
    forms[pair_starts] = _UPDATE
    forms = forms[places]
    if not len(pair_starts):
        return joined([_chosen(_PREFIXES, forms), strings, _chosen(_SUFFIXES, forms)], len(places))
    others = pa.array(places + 1, mask=forms != _UPDATE)
    pieces = [
        _chosen(_PREFIXES, forms),
        strings.take(pa.array(places)),
        _chosen(_MIDDLES, forms),
        pc.fill_null(strings.take(others), pa.scalar("", TEXT)),
        _chosen(_SUFFIXES, forms),
    ]
    return joined(pieces, len(places))


def _chosen(texts: Sequence[bytes], numbers: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array([text.decode() for text in texts], TEXT).take(pa.array(numbers))

"""Reads debezium-json envelopes in three ways, from fast and special to slow and general.

1. Canonical envelopes, `{"before":..,"after":..,"op":".."}` byte for byte as lakelog and Flink write them: cut off
   without parsing; the rest are rows, one JSON object per line.
2. Other envelopes, all in one form, such as Debezium's: Arrow's parser reads envelope and rows at once.
3. All others, and a few records, since Arrow's parser and polars wake threads: parsed one by one. Only this way can
   find a record corrupt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any  # Any: numpy arrays of any element type, and parsed JSON

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from lakelog.common.arrow import takes_python_values_at_once, to_arrow_schema, to_arrow_type
from lakelog.common.errors import CorruptDataError, UnsupportedError
from lakelog.common.quoting import shown
from lakelog.common.types import DataField, RowKind
from lakelog.logstore.codec.encoded_records import Changes
from lakelog.logstore.codec.json_columns import (
    NotColumnarError,
    WireColumn,
    convert_columns,
    parse_lines,
    wire_column,
)
from lakelog.logstore.codec.json_value import Json, JsonValueError, parse_json, parser_of, value_of

INSERT_PREFIX, INSERT_SUFFIX = b'{"before":null,"after":', b',"op":"c"}'
DELETE_PREFIX, DELETE_SUFFIX = b'{"before":', b',"after":null,"op":"d"}'
UPDATE_PREFIX, UPDATE_MIDDLE, UPDATE_SUFFIX = b'{"before":', b',"after":', b',"op":"u"}'

_SAMPLE_RECORDS = _FEW = 1_000
_ONE_BY_ONE_MAX, _ONE_BY_ONE_BYTES = 32, 64 << 10
_ADD_OPS = ("c", "r")
_OPS = (*_ADD_OPS, "u", "d")

Name = Callable[[int], str]


def read_changes(values: Sequence[bytes], fields: Sequence[DataField], name: Name) -> Changes:
    """The changes of records without tombstones. `name` names a record by its number, for errors.

    Raises CorruptDataError, and UnsupportedError for a truncation.
    """
    is_small = len(values) <= _ONE_BY_ONE_MAX and sum(map(len, values)) <= _ONE_BY_ONE_BYTES
    if is_small and takes_python_values_at_once():
        return _read_one_by_one(values, fields, name)
    try:
        return _read_canonical(values, fields) or _read_uniform(values, fields)
    except NotColumnarError:
        return _read_one_by_one(values, fields, name)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Rows without their envelopes: JSON objects, one per line, in log order."""

    lines: pa.Buffer
    kinds: npt.NDArray[np.int8]
    records: npt.NDArray[np.int64]


def _read_canonical(values: Sequence[bytes], fields: Sequence[DataField]) -> Changes | None:
    """The changes of canonical envelopes; None if there is another envelope among them. Raises NotColumnarError."""
    cut = (_cut_inserts(values) if len(values) <= _FEW else None) or _cut_rows(values)
    if cut is None:
        return None
    columns = [wire_column(field) for field in fields]
    wires = [column for column in columns if column is not None]
    schema = pa.schema([(wire.field.name, wire.type) for wire in wires])
    table = parse_lines(cut.lines, len(cut.kinds), schema)
    arrays = dict(zip(schema.names, convert_columns(wires, table.columns), strict=True))
    by_hand = [field for field, column in zip(fields, columns, strict=True) if column is None]
    if by_hand:
        try:
            # One call for all rows takes less than half the time of a call for each.
            rows = parse_json(b"[%b]" % cut.lines.to_pybytes()[:-1].replace(b"\n", b","))
            if len(rows) != len(cut.kinds):
                raise NotColumnarError
            arrays |= _parse_columns(rows, by_hand)
        except (JsonValueError, AttributeError) as error:
            raise NotColumnarError from error
    return Changes(_table(arrays, fields), cut.kinds, cut.records)


def _cut_inserts(values: Sequence[bytes]) -> _Cut | None:
    """The rows of a few inserts; None for other changes. What polars costs at least is more than ten records take."""
    first, last = INSERT_PREFIX + b"{", b"}" + INSERT_SUFFIX
    if not all(value.startswith(first) and value.endswith(last) for value in values):
        return None
    lines = b"".join([value[len(INSERT_PREFIX) : -len(INSERT_SUFFIX)] + b"\n" for value in values])
    _check_utf8(lines)
    return _Cut(pa.py_buffer(lines), np.full(len(values), RowKind.INSERT, np.int8), np.arange(len(values)))


def _cut_rows(values: Sequence[bytes]) -> _Cut | None:
    frame = pl.DataFrame({"value": pl.Series(values, dtype=pl.Binary)})
    frame = frame.with_columns(is_insert=_is_between(INSERT_PREFIX, INSERT_SUFFIX))
    rows = _inside(INSERT_PREFIX, INSERT_SUFFIX)
    updates = np.zeros(len(values), np.bool_)
    if not frame["is_insert"].all():
        frame = frame.with_columns(is_delete=_is_between(DELETE_PREFIX, DELETE_SUFFIX))
        rows = pl.when("is_insert").then(rows).otherwise(_inside(DELETE_PREFIX, DELETE_SUFFIX))
        updates = ~(frame["is_insert"] | frame["is_delete"]).to_numpy()
    try:
        if updates.any():
            # A JSON string never contains raw quotes, so a middle that is found once is the one between the images.
            middle = (b"}" + UPDATE_MIDDLE + b"{").decode()
            text = pl.col("value").cast(pl.String)
            is_update = _is_between(UPDATE_PREFIX, UPDATE_SUFFIX) & (text.str.count_matches(middle, literal=True) == 1)
            if not frame.filter(updates).select(is_update.all()).item():
                return None
            lines = _inside(UPDATE_PREFIX, UPDATE_SUFFIX).cast(pl.String)
            lines = lines.str.replace(middle, "}\n{", literal=True)
            rows = pl.when(pl.Series(updates)).then(lines).otherwise(rows.cast(pl.String))
        lines_series = frame.select(pl.concat_str(rows.cast(pl.String), pl.lit("\n")).alias("line")).to_series()
    except pl.exceptions.PolarsError as error:  # not UTF-8
        raise NotColumnarError from error
    images = 1 + updates.astype(np.int64)
    kinds = np.repeat(np.where(frame["is_insert"].to_numpy(), RowKind.INSERT, RowKind.DELETE).astype(np.int8), images)
    if updates.any():
        firsts = (np.cumsum(images) - images)[updates]
        kinds[firsts], kinds[firsts + 1] = RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER
    return _Cut(_line_buffer(lines_series), kinds, np.repeat(np.arange(len(values)), images))


def _line_buffer(lines: pl.Series) -> pa.Buffer:
    """The lines joined; each already ends with a newline."""
    array = lines.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    offsets = np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * 8)
    return array.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _is_between(prefix: bytes, suffix: bytes) -> pl.Expr:
    """Whether the record is an object between the two."""
    value = pl.col("value").bin
    return value.starts_with(prefix + b"{") & value.ends_with(b"}" + suffix)


def _inside(prefix: bytes, suffix: bytes) -> pl.Expr:
    value = pl.col("value").bin
    return value.slice(len(prefix), value.size() - len(prefix) - len(suffix))


def _read_uniform(values: Sequence[bytes], fields: Sequence[DataField]) -> Changes:
    """The changes of envelopes in one form. Raises NotColumnarError for several forms, and for maps."""
    samples = _samples(values, fields)
    columns = [wire_column(field, samples.get(field.name)) for field in fields]
    wires = [column for column in columns if column is not None]
    if len(wires) < len(columns):
        raise NotColumnarError
    image = pa.struct([(wire.field.name, wire.type) for wire in wires])
    envelope = [("before", image), ("after", image), ("op", pa.string())]
    in_payload = _is_wrapped(parse_json(values[0]))
    schema = pa.schema([("payload", pa.struct(envelope)), ("op", pa.string())] if in_payload else envelope)
    if not all(value[:1] == b"{" for value in values):
        raise NotColumnarError
    text = b"\n".join(values)
    _check_utf8(text)  # the parser would take names that are not for unknown ones
    table = parse_lines(pa.py_buffer(text), len(values), schema)
    if in_payload:
        if table["op"].null_count < len(values):  # only some are wrapped
            raise NotColumnarError
        table = pa.Table.from_arrays(table["payload"].combine_chunks().flatten(), names=[key for key, _ in envelope])
    return _images_in_order(table, wires, fields)


def _check_utf8(text: bytes) -> None:
    try:
        _ = text.isascii() or text.decode()
    except UnicodeDecodeError as error:
        raise NotColumnarError from error


def _images_in_order(table: pa.Table, wires: Sequence[WireColumn], fields: Sequence[DataField]) -> Changes:
    before, after = table["before"].combine_chunks(), table["after"].combine_chunks()
    has_before, has_after = (np.asarray(image.is_valid()) for image in (before, after))
    op = table["op"].combine_chunks().fill_null("")
    is_op = {letter: np.asarray(op.to_numpy(zero_copy_only=False) == letter) for letter in _OPS}
    adds = is_op["c"] | is_op["r"]
    takes_after = adds | is_op["u"]
    takes_before = (is_op["u"] & has_before) | is_op["d"]
    if not (takes_after | takes_before).all() or (takes_after & ~has_after).any() or (takes_before & ~has_before).any():
        raise NotColumnarError  # an odd op or a missing image; the slow way raises the error
    count = len(op)
    kinds = np.empty(2 * count, np.int8)
    kinds[0::2] = np.where(is_op["u"], RowKind.UPDATE_BEFORE, RowKind.DELETE)
    kinds[1::2] = np.where(is_op["u"], RowKind.UPDATE_AFTER, RowKind.INSERT)
    chosen = np.flatnonzero(np.column_stack([takes_before, takes_after]).ravel())
    records, is_after = np.divmod(chosen, 2)
    images = pa.concat_arrays([before, after]).take(pa.array(records + is_after * count))
    arrays = convert_columns(wires, images.flatten())
    rows = _table({wire.field.name: array for wire, array in zip(wires, arrays, strict=True)}, fields)
    return Changes(rows, kinds[chosen], records)


def _samples(values: Sequence[bytes], fields: Sequence[DataField]) -> dict[str, Json]:
    """For each column a value that is not null, if the first records have one."""
    missing = {field.name for field in fields}
    samples: dict[str, Json] = {}
    for value in islice(values, _SAMPLE_RECORDS):
        try:
            envelope = _unwrap(parse_json(value))
            images = [image for image in (envelope.get("before"), envelope.get("after")) if image is not None]
            found = {key: image[key] for image in images for key in missing & image.keys() if image[key] is not None}
        except (JsonValueError, AttributeError, TypeError) as error:
            raise NotColumnarError from error
        samples |= found
        missing -= found.keys()
        if not missing:
            break
    return samples


def _is_wrapped(record: Json) -> bool:
    return isinstance(record, Mapping) and "payload" in record and "op" not in record


def _unwrap(record: Json) -> Json:
    """The envelope of a record. Kafka Connect may have put it beside its schema."""
    return value_of(record, "payload") if _is_wrapped(record) else record


def _read_one_by_one(values: Sequence[bytes], fields: Sequence[DataField], name: Name) -> Changes:
    rows: list[Mapping[str, Json]] = []
    kinds: list[RowKind] = []
    records: list[int] = []
    for number, value in enumerate(values):
        for kind, image in _images(value, number, name):
            rows.append(image)
            kinds.append(kind)
            records.append(number)
    try:
        arrays = _parse_columns(rows, fields)
    except JsonValueError as error:
        raise _first_error(rows, records, fields, name) from error
    return Changes(_table(arrays, fields), np.array(kinds, np.int8), np.array(records, np.int64))


def _images(value: bytes, number: int, name: Name) -> list[tuple[RowKind, Mapping[str, Json]]]:
    try:
        envelope = _unwrap(parse_json(value))
        op, before, after = (value_of(envelope, key) for key in ("op", "before", "after"))
    except (JsonValueError, AttributeError) as error:
        raise CorruptDataError(
            f"{name(number)} is not a debezium-json record: {error}; it begins with {value[:60]!r}; expected an object "
            "with before, after and op"
        ) from error
    if op == "t":
        raise UnsupportedError(
            f"{name(number)} truncates the table (op 't'), which lakelog cannot apply; delete the rows instead"
        )
    if op not in _OPS:
        raise CorruptDataError(f"{name(number)} has the op {shown(op)}; expected one of {', '.join(_OPS)}")
    images: list[tuple[RowKind, Mapping[str, Json]]] = []
    if op == "d" or (op == "u" and before is not None):
        images.append((RowKind.DELETE if op == "d" else RowKind.UPDATE_BEFORE, before))
    if op != "d":
        images.append((RowKind.UPDATE_AFTER if op == "u" else RowKind.INSERT, after))
    for kind, image in images:
        if not isinstance(image, Mapping):
            side = "after" if kind.is_add else "before"
            raise CorruptDataError(
                f"{name(number)} has op {shown(op)} and no {side!r} image; found {str(image)[:60]!r}"
            )
    return images


def _parse_columns(rows: Sequence[Mapping[str, Json]], fields: Sequence[DataField]) -> dict[str, pa.Array]:
    """Raises JsonValueError."""
    found = {}
    for field in fields:
        parse = parser_of(field.type)
        found[field.name] = pa.array([parse(value_of(row, field.name)) for row in rows], to_arrow_type(field.type))
    return found


def _first_error(
    rows: Sequence[Mapping[str, Json]], records: Sequence[int], fields: Sequence[DataField], name: Name
) -> CorruptDataError:
    for row, number in zip(rows, records, strict=True):
        for field in fields:
            try:
                _parse_columns([row], [field])
            except JsonValueError as error:
                return CorruptDataError(f"{name(number)}, column {field.name!r}: {error}")
    raise AssertionError("no value fails alone, but the columns failed")


def _table(arrays: Mapping[str, pa.Array], fields: Sequence[DataField]) -> pa.Table:
    schema: Any = to_arrow_schema(fields)
    return pa.Table.from_arrays([arrays[field.name] for field in fields], schema=schema)

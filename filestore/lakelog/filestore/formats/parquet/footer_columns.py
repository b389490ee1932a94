"""Footers of Parquet files reduced to some columns, and to what a reader of these needs. Pure.

A footer is a struct `FileMetaData`. Source: parquet-format, `parquet.thrift`. The fields that have an entry for each
column lose those of other columns: the schema (2), the columns of each row group (1 in 4) and the orders of columns
(7). In a row group a column (`ColumnMetaData`, 3 in its entry) loses counts of its pages (13) and sizes of its values
(16), and its statistics (12) lose the deprecated bounds (1, 2) if they have the new ones (5, 6). All other bytes stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from lakelog.filestore.formats.blocks.varints import varint_bytes
from lakelog.filestore.formats.parquet.thrift import INTEGERS, ThriftCursor, Wire

_METADATA, _STATISTICS = 3, 12
_COUNTS = (13, 16)
_OLD_BOUNDS, _NEW_BOUNDS = (1, 2), (5, 6)
_LONG_LIST = 15  # from this count on, the count is a number of its own


def footer_of_columns(footer: bytes, names: Collection[str]) -> bytes | None:
    """The footer with the columns `names` alone; None if it has fields that refer to columns by their number.

    `footer` is one that Arrow wrote. Raises IndexError and ValueError for others.
    """
    cursor = ThriftCursor(footer)
    parts: list[bytes] = []
    copied = 0
    kept: list[bool] = []

    def replace_list(edited: Callable[[], bytes]) -> None:
        nonlocal copied
        parts.append(footer[copied : cursor.position])
        parts.append(edited())
        copied = cursor.position

    def schema() -> bytes:
        elements, found = _schema(cursor, footer, names)
        kept.extend(found)
        return elements

    for number, kind in cursor.fields():
        if number == 2 and kind == Wire.LIST:
            replace_list(schema)
        elif number == 4 and kind == Wire.LIST:
            for _ in cursor.items((Wire.STRUCT,)):
                for field, kind_of_field in cursor.fields():
                    if field == 1 and kind_of_field == Wire.LIST:
                        replace_list(lambda: _kept_items(cursor, footer, kept, _chunk))
                    elif field == 4:  # the numbers of the columns by which rows are sorted
                        return None
                    else:
                        cursor.skip(kind_of_field)
        elif number == 7 and kind == Wire.LIST:
            replace_list(lambda: _kept_items(cursor, footer, kept, _struct))
        else:
            cursor.skip(kind)
    return b"".join([*parts, footer[copied:]])


def _schema(cursor: ThriftCursor, footer: bytes, names: Collection[str]) -> tuple[bytes, list[bool]]:
    """The elements of the schema that are left, and whether each column of the file is."""
    elements = [_element(cursor, footer) for _ in cursor.items((Wire.STRUCT,))]
    root, *others = elements
    found: list[bytes] = []
    kept: list[bool] = []
    roots = 0
    open_members: list[int] = []  # of each group around an element, the members to come
    is_kept = False
    for element in others:
        if not open_members:
            is_kept = element.name in names
            roots += is_kept
        if is_kept:
            found.append(footer[element.start : element.end])
        if element.children:
            open_members.append(element.children)
            continue
        kept.append(is_kept)
        while open_members:
            open_members[-1] -= 1
            if open_members[-1]:
                break
            open_members.pop()
    start, end = root.children_at
    first = footer[root.start : start] + varint_bytes(roots << 1) + footer[end : root.end]
    return _list_head(len(found) + 1) + first + b"".join(found), kept


class _Element:
    """An element of the schema: its bytes in the footer, and what they say."""

    def __init__(self, start: int) -> None:
        self.start, self.end = start, start
        self.name = ""
        self.children = 0
        self.children_at = (start, start)


def _element(cursor: ThriftCursor, footer: bytes) -> _Element:
    found = _Element(cursor.position)
    for number, kind in cursor.fields():
        if number == 4 and kind == Wire.BINARY:
            length = cursor.binary_length()
            found.name = footer[cursor.position - length : cursor.position].decode()
        elif number == 5 and kind in INTEGERS:
            start = cursor.position
            found.children = cursor.integer()
            found.children_at = (start, cursor.position)
        else:
            cursor.skip(kind)
    found.end = cursor.position
    return found


def _kept_items(
    cursor: ThriftCursor, footer: bytes, kept: Sequence[bool], item: Callable[[ThriftCursor, bytes], bytes]
) -> bytes:
    """A list of structs, one for each column of the file, without those of other columns."""
    items = cursor.items((Wire.STRUCT,))
    if len(items) != len(kept):
        raise ValueError(f"a list has {len(items)} items, and the file {len(kept)} columns")
    left: list[bytes] = []
    for is_kept in kept:
        if is_kept:
            left.append(item(cursor, footer))
        else:
            cursor.skip(Wire.STRUCT)
    return _list_head(len(left)) + b"".join(left)


def _struct(cursor: ThriftCursor, footer: bytes) -> bytes:
    """A struct as it is."""
    start = cursor.position
    cursor.skip(Wire.STRUCT)
    return footer[start : cursor.position]


def _chunk(cursor: ThriftCursor, footer: bytes) -> bytes:
    """The entry of a column in a row group, shortened."""
    return _edited(cursor, footer, {_METADATA: _column})


def _column(cursor: ThriftCursor, footer: bytes) -> bytes:
    return _edited(cursor, footer, {_STATISTICS: _statistics}, dropped=_COUNTS)


def _statistics(cursor: ThriftCursor, footer: bytes) -> bytes:
    return _edited(cursor, footer, {}, dropped=_OLD_BOUNDS, dropped_with=_NEW_BOUNDS)


def _edited(
    cursor: ThriftCursor,
    footer: bytes,
    edited: Mapping[int, Callable[[ThriftCursor, bytes], bytes]],
    *,
    dropped: Collection[int] = (),
    dropped_with: Collection[int] = (),
) -> bytes:
    """A struct with some fields edited, and without `dropped` if it has all fields of `dropped_with`."""
    fields: list[tuple[int, int, bytes]] = []
    for number, kind in cursor.fields():
        start = cursor.position
        if number in edited and kind == Wire.STRUCT:
            value = edited[number](cursor, footer)
        else:
            cursor.skip(kind)
            value = footer[start : cursor.position]
        fields.append((number, kind, value))
    numbers = {number for number, _, _ in fields}
    parts: list[bytes] = []
    before = 0
    for number, kind, value in fields:
        if number in dropped and numbers.issuperset(dropped_with):
            continue
        step = number - before
        parts.append(bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + varint_bytes(number << 1))
        parts.append(value)
        before = number
    return b"".join([*parts, b"\0"])


def _list_head(count: int) -> bytes:
    """The head of a list of structs."""
    if count < _LONG_LIST:
        return bytes([count << 4 | Wire.STRUCT])
    return bytes([_LONG_LIST << 4 | Wire.STRUCT]) + varint_bytes(count)

"""Columns as DDL that `parse_ddl` reads."""

from __future__ import annotations

import re
from collections.abc import Callable

from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.schema import default_text

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words with a meaning behind the name of a column, or in a list of columns.
_WORDS = """
ADD ALTER AND AS BETWEEN BY CASE CHECK COLUMN COMMENT CONSTRAINT CREATE CROSS DEFAULT DELETE DESC DISTINCT DROP ELSE
END EXCEPT EXISTS FALSE FOR FOREIGN FROM FULL GENERATED GRANT GROUP HAVING IN INNER INSERT INTERSECT INTO IS JOIN LEFT
LIKE LIMIT NATURAL NOT NULL ON OR ORDER OUTER PARTITION PRIMARY REFERENCES RIGHT SELECT SET TABLE THEN TO TRUE UNION
UNIQUE UPDATE USING VALUES WATERMARK WHEN WHERE WITH
"""
_RESERVED = frozenset(_WORDS.split())


def column_ddl(field: DataField, write: Callable[[str], str] | None = None) -> str:
    """`name type [NOT NULL] [DEFAULT constant] [COMMENT 'text']`; `write` writes strings, otherwise as Spark does."""
    write = write or written_text
    text = f"{written_name(field.name)} {type_ddl(field.type, write)}"
    default = default_text(field)
    if default is not None:
        text += f" DEFAULT {default if default == field.default_value else write(default)}"
    return f"{text} COMMENT {write(field.description)}" if field.description else text


def type_ddl(kind: DataType, write: Callable[[str], str] | None = None) -> str:
    """A type with NOT NULL, if it has that."""
    match kind.root:
        case TypeRoot.ARRAY | TypeRoot.MULTISET if kind.element is not None:
            text = f"{kind.root.value}<{type_ddl(kind.element, write)}>"
        case TypeRoot.MAP if kind.key is not None and kind.value is not None:
            text = f"MAP<{type_ddl(kind.key, write)}, {type_ddl(kind.value, write)}>"
        case TypeRoot.ROW:
            text = f"STRUCT<{', '.join(column_ddl(one, write) for one in kind.fields)}>"
        case _:
            return str(kind)
    return text if kind.nullable else f"{text} NOT NULL"


def written_name(name: str) -> str:
    """A name, quoted where it has to be."""
    is_plain = _PLAIN.fullmatch(name) is not None and name.upper() not in _RESERVED
    return name if is_plain else quoted_name(name)


def quoted_name(name: str) -> str:
    """A name in backticks, whatever characters it has: in DDL, in conditions, in Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def written_text(text: str) -> str:
    """A string in quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

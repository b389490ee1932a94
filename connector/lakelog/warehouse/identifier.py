"""Names of tables, and the folders and topics that follow from them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import cut
from lakelog.filestore.io import DATABASE_SUFFIX
from lakelog.filestore.schema import BRANCH_INFIX

_NAME = re.compile(r"[^\W_][\w-]*|_[\w-]+")
_NOT_IN_TOPICS = re.compile(r"[^a-zA-Z0-9_-]")
_TOPIC_LENGTH_MAX = 249
_BYTES_MAX = 200  # a folder name has at most 255, and a drop first makes it longer


@dataclass(frozen=True, slots=True)
class Identifier:
    """A table's full name, `database.table`; its folder is `<warehouse>/<database>.db/<table>`."""

    database: str
    table: str

    @classmethod
    def parse(cls, text: str) -> Identifier:
        """The identifier in a string such as `db.flights`. Raises InvalidRequestError."""
        parts = text.split(".")
        if BRANCH_INFIX in text:
            raise InvalidRequestError(f"{text!r} names a branch of a table; expected a table, such as db.flights")
        if len(parts) != 2:
            raise InvalidRequestError(f"{text!r} does not name a table; expected database.table, such as db.flights")
        return cls(check_name(parts[0], "database"), check_name(parts[1], "table"))

    @classmethod
    def of_path(cls, path: str) -> Identifier | None:
        """The identifier of a table's folder; None outside a warehouse."""
        folder, _, table = path.rpartition("/")
        database = folder.rpartition("/")[2]
        return cls(database.removesuffix(DATABASE_SUFFIX), table) if database.endswith(DATABASE_SUFFIX) else None

    def path(self, warehouse: str) -> str:
        """The table's folder."""
        return f"{warehouse.rstrip('/')}/{self.database}{DATABASE_SUFFIX}/{self.table}"

    def topic(self, table_uuid: str) -> str:
        """A topic name that no other table has; it is readable and within Kafka's rules."""
        readable = f"{_NOT_IN_TOPICS.sub('_', self.database)}.{_NOT_IN_TOPICS.sub('_', self.table)}"
        return f"{readable[: _TOPIC_LENGTH_MAX - len(table_uuid) - 1]}.{table_uuid}"

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


def check_name(name: str, what: str) -> str:
    """The name, if it is valid for a folder and in a query. Raises InvalidRequestError."""
    if not _NAME.fullmatch(name):
        raise InvalidRequestError(
            f"{what} name {name!r} is not allowed; expected letters, digits, '_' and '-', with no '-' at the start"
        )
    size = len(name.encode("utf-8", "replace"))
    if size > _BYTES_MAX:
        raise InvalidRequestError(f"{what} name {cut(name)!r} has {size} bytes; at most {_BYTES_MAX} are allowed")
    return name

"""The changes of a table's schema, as values. Source: Paimon, `SchemaChange`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import DataType

Column = str | Sequence[str]


class Place(StrEnum):
    """The place of a column among its siblings."""

    FIRST = "first"
    LAST = "last"
    AFTER = "after"
    BEFORE = "before"


@dataclass(frozen=True, slots=True)
class Position:
    """A place among the columns, or among the members of a ROW; `beside` names the neighbour of AFTER and BEFORE."""

    place: Place
    beside: str | None = None

    def __post_init__(self) -> None:
        needs = self.place in (Place.AFTER, Place.BEFORE)
        if needs is not bool(self.beside):
            raise InvalidRequestError(f"position {self.place.value!r} takes {'a' if needs else 'no'} neighbour")


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Add a nullable column, which is null in all existing rows.

    `column` is its name, or the path to a new member of a nested type. `type` is a type, an Arrow type, or a string
    such as `DECIMAL(10, 2)`. The column is the last one, unless `position` names another place.
    """

    column: Column
    type: DataType | pa.DataType | str
    comment: str | None = None
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drop a column or member. Old files keep its values, but a new column of the same name starts with nulls."""

    column: Column


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Rename a column or member, also in keys and options that name it."""

    column: Column
    name: str


@dataclass(frozen=True, slots=True)
class UpdateColumnPosition:
    """Move a column or member to another place among its siblings."""

    column: Column
    position: Position


@dataclass(frozen=True, slots=True)
class UpdateColumnType:
    """Give a column a type that holds all of its values, such as BIGINT for INT. Nullability does not change."""

    column: Column
    type: DataType | pa.DataType | str


@dataclass(frozen=True, slots=True)
class SetNullability:
    """Make a NOT NULL column nullable. `nullable=False` is refused: the column may hold nulls."""

    column: Column
    nullable: bool


@dataclass(frozen=True, slots=True)
class SetComment:
    """Set the comment of a column or member; None removes it."""

    column: Column
    comment: str | None


@dataclass(frozen=True, slots=True)
class SetDefault:
    """Set what INSERT statements write into a column that they leave out; None removes it.

    `default` is a constant in SQL, such as `5`, `'new'` or `DATE '2026-01-31'`. Rows that exist stay as they are.
    """

    column: Column
    default: str | None


@dataclass(frozen=True, slots=True)
class SetOption:
    """Set an option of the table."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class RemoveOption:
    """Remove an option of the table, which sets it back to its default."""

    key: str


@dataclass(frozen=True, slots=True)
class SetTableComment:
    """Set the comment of the table; None removes it."""

    comment: str | None


ColumnChange = (
    AddColumn
    | DropColumn
    | RenameColumn
    | UpdateColumnPosition
    | UpdateColumnType
    | SetNullability
    | SetComment
    | SetDefault
)
SchemaChange = ColumnChange | SetOption | RemoveOption | SetTableComment

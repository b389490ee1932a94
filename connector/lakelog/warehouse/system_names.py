"""Names of branches and system tables after that of their table: `db.t$branch_b`, `db.t$files`, `db.t$branch_b$files`.

The table is an identifier or a folder. Source: Paimon, `Identifier`.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.quoting import listed, shown

SYSTEM_DATABASE = "sys"
STORED_DATABASE = "lakelog_sys"  # of the stored system tables, see `lakelog.warehouse.lineage_tables`
_SPLITTER = "$"
_BRANCH = "branch_"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadName:
    """The parts of a name: the table, and the branch and the system table if it names them."""

    table: str
    branch: str | None = None
    system: str | None = None


def split_name(text: str) -> ReadName:
    """The parts of a name. A folder whose own name has a `$` without such a part after it is a table.

    Raises NotFoundError for an identifier with another part, naming the possible ones.
    """
    folder, slash, last = text.rpartition("/")
    if _SPLITTER not in last:
        return ReadName(table=text)
    from lakelog.filestore.system import SYSTEM_NAMES

    name, *parts = last.split(_SPLITTER)
    table = f"{folder}{slash}{name}"
    branch = parts.pop(0).removeprefix(_BRANCH) if parts[0].startswith(_BRANCH) else None
    if branch == "" or len(parts) > 1 or (parts and parts[0] not in SYSTEM_NAMES):
        if slash:
            return ReadName(table=text)
        wrong = parts[-1] if parts else _BRANCH
        near = get_close_matches(wrong, SYSTEM_NAMES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"expected branch_<name>, or one of {listed(SYSTEM_NAMES)}"
        raise NotFoundError(f"{text!r} names {shown(wrong)} of table {table}, which does not exist; {hint}")
    return ReadName(table=table, branch=branch, system=parts[0] if parts else None)


def names_system_table(text: str, *, in_warehouse: bool) -> bool:
    """Whether a name is that of a system table; names in the database `sys` are so only in a warehouse."""
    if _SPLITTER in text:
        return split_name(text).system is not None
    return in_warehouse and "/" not in text and text.startswith(f"{SYSTEM_DATABASE}.")


def check_is_free(database: str) -> None:
    """Raise InvalidRequestError for a database of system tables: tables of users would not be listed in it."""
    if database in {SYSTEM_DATABASE, STORED_DATABASE}:
        raise InvalidRequestError(f"database {database!r} is reserved for lakelog's system tables; choose another name")


def check_is_table(text: str, name: ReadName) -> None:
    """Raise InvalidRequestError for the name of a system table when a table is to be opened."""
    if name.system is not None:
        raise InvalidRequestError(
            f"{text} is a system table, which is read, and not opened: Catalog.system_table({text!r}), or "
            f"Table.system.table({name.system!r}) of the table {name.table}"
        )

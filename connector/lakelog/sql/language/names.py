"""The names in statements: catalogs, the current database, temporary views."""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any  # Any: frames are of optional extras

from sqlglot import exp

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.quoting import listed, shown
from lakelog.sql.language.dialect import FILE, LakelogDialect
from lakelog.sql.language.frames import frame_named
from lakelog.sql.language.interrupts import Interrupts

if TYPE_CHECKING:
    from lakelog.catalog import Catalog, Table

_FILE = re.compile(r"\.(?:parquet|[ct]sv|jsonl?|ndjson)(?:\.gz|\.zst)?$", re.IGNORECASE)
_DEPTH = 3  # catalog.database.table


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundName:
    """A name with its catalog; `full` is `database.table` or the name of a database."""

    catalog_name: str
    catalog: Catalog
    full: str

    def __str__(self) -> str:
        return f"{self.catalog_name}.{self.full}"

    @property
    def table(self) -> Table:
        """The table. Raises NotFoundError."""
        return self.catalog.load_table(self.full)


@dataclass(kw_only=True, eq=False)
class SqlNames:
    """What names mean in the statements of a connection; USE changes it, and CREATE TEMPORARY VIEW or TABLE.

    `defaults` are the options of new tables, by SET; `frames` the variables that the statement may read by their names.
    `is_fresh` says that reads of tables have the log behind the newest snapshot.
    """

    catalogs: Mapping[str, Catalog]
    catalog: str
    database: str | None = None
    views: dict[str, exp.Query] = field(default_factory=dict)
    temporary: set[str] = field(default_factory=set)
    defaults: dict[str, str] = field(default_factory=dict)
    frames: MutableMapping[str, Any] = field(default_factory=dict)
    interrupts: Interrupts = field(default_factory=Interrupts)
    is_fresh: bool = False

    def view(self, table: exp.Table) -> exp.Query | None:
        """The query of a temporary view; None for another name."""
        return None if table.db else self.views.get(table.name.lower())

    def is_temporary(self, table: exp.Table) -> bool:
        """Whether a name is that of a temporary table."""
        return not table.db and table.name.lower() in self.temporary

    def is_file(self, table: exp.Table) -> bool:
        """Whether a name is that of a file: a string, or a name that ends as files do, which no table has."""
        return bool(table.meta.get(FILE)) or (not table.db and _FILE.search(table.name) is not None)

    def frame(self, table: exp.Table) -> Any:
        """The frame of Python that a name means; None for another one."""
        if table.db or table.name not in self.frames:
            return None
        found = frame_named(self.frames, table.name)
        return None if found is None or self._is_table(table) else found

    def _is_table(self, table: exp.Table) -> bool:
        return self.database is not None and self.catalog_named(None).table_exists(f"{self.database}.{table.name}")

    def found(self, table: exp.Table) -> FoundName:
        """The name of the table of a statement. Raises as `resolved`."""
        _check_named(table)
        return self.resolved(table)

    def resolved(self, table: exp.Table) -> FoundName:
        """A table's name. Raises InvalidRequestError, and NotFoundError for a catalog that is not attached."""
        parts = [part.name for part in table.parts]
        if len(parts) == _DEPTH:
            return self._in_catalog(parts[0], ".".join(parts[1:]))
        if len(parts) > _DEPTH:
            raise InvalidRequestError(f"{shown(table.sql())} is not a table: expected catalog.database.table")
        if len(parts) == 1:
            if self.database is None:
                raise InvalidRequestError(
                    f"table {parts[0]!r} has no database: name it as database.{parts[0]}, or choose one with USE"
                )
            parts.insert(0, self.database)
        return self._in_catalog(None, ".".join(parts))

    def found_database(self, given: exp.Table | None) -> FoundName:
        """A database's name; without one the current database."""
        if given is None:
            if self.database is None:
                raise InvalidRequestError("no database is chosen: name one, or choose one with USE")
            return self._in_catalog(None, self.database)
        _check_named(given)
        parts = [part.name for part in given.parts]
        if len(parts) == 1:
            return self._in_catalog(None, parts[0])
        if len(parts) != _DEPTH - 1:
            raise InvalidRequestError(f"{shown(given.sql())} is not a database: expected catalog.database")
        return self._in_catalog(parts[0], parts[1])

    def use(self, given: exp.Table) -> None:
        """Choose the current database, or a catalog. Raises NotFoundError."""
        _check_named(given)
        parts = [part.name for part in given.parts]
        if len(parts) == 1 and parts[0] in self.catalogs:
            self.catalog, self.database = parts[0], None
            return
        found = self.found_database(given)
        check_database(found)
        self.catalog, self.database = found.catalog_name, found.full

    def catalog_named(self, name: str | None) -> Catalog:
        """The catalog that is attached under a name, without one the current. Raises NotFoundError."""
        found = self.catalogs.get(self.catalog if name is None else name)
        if found is None:
            raise NotFoundError(f"there is no catalog {shown(name)}; attached are {listed(sorted(self.catalogs))}")
        return found

    def _in_catalog(self, name: str | None, full: str) -> FoundName:
        return FoundName(catalog_name=name or self.catalog, catalog=self.catalog_named(name), full=full)


def _check_named(given: object) -> None:
    """Raise InvalidRequestError for what stands in the place of a name."""
    if not isinstance(given, exp.Table) or not given.name:
        text = given.sql(dialect=LakelogDialect) if isinstance(given, exp.Expr) else "nothing"
        raise InvalidRequestError(f"{shown(text)} is not the name of a table or database")


def check_database(found: FoundName) -> None:
    """Raise NotFoundError if there is no such database."""
    if not found.catalog.database_exists(found.full) and found.full != "sys":
        try:
            known = listed(sorted(found.catalog.list_databases()))
        except NotFoundError:  # the first database makes the warehouse's folder
            known = ""
        way_out = f"the databases are {known}" if known else f"CREATE DATABASE {found} makes it"
        raise NotFoundError(f"there is no database {found}; {way_out}")

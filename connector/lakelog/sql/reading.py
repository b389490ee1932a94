"""The tables of a query for DuckDB: each at one snapshot, with columns and filters pushed into our reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any  # Any: duckdb is an optional extra without types here

import duckdb
import pyarrow as pa
from sqlglot import exp

from lakelog.common.errors import InvalidRequestError, LakelogError, NotFoundError, UnsupportedError
from lakelog.common.quoting import shown
from lakelog.filestore.options import LINEAGE_CAPTURE
from lakelog.filestore.refs import SnapshotChoice
from lakelog.lineage.records.declared import with_lineage
from lakelog.lineage.records.record import BatchLineage, ReadMode, TableSource
from lakelog.lineage.records.sources import source_of_table, version_of
from lakelog.sql.changes import changes_of
from lakelog.sql.dialect import LakelogDialect
from lakelog.sql.duckdb_words import as_duckdb
from lakelog.sql.names import FoundName, SqlNames
from lakelog.sql.parsing import literal_of
from lakelog.warehouse.system_names import names_system_table

if TYPE_CHECKING:
    from lakelog.catalog import Table
    from lakelog.filestore.metadata.snapshots import Snapshot

# Options that name a state, by Paimon's keys and by our own.
_STATES = {
    "scan.snapshot-id": "snapshot_id",
    "snapshot_id": "snapshot_id",
    "scan.tag-name": "tag",
    "tag": "tag",
    "scan.version": "version",
    "version": "version",
    "scan.timestamp": "timestamp",
    "timestamp": "timestamp",
    "scan.timestamp-millis": "timestamp",
    "scan.watermark": "watermark",
    "watermark": "watermark",
    "branch": "branch",
    "scan.branch": "branch",
}
_NUMBERS = ("scan.snapshot-id", "snapshot_id", "scan.timestamp-millis", "scan.watermark", "watermark")
_LONG = 3
_MAKE_INTERVAL = """CREATE MACRO make_dt_interval
(d) AS to_days(d),
(d, h) AS to_days(d) + to_hours(h),
(d, h, m) AS to_days(d) + to_hours(h) + to_minutes(m),
(d, h, m, s) AS to_days(d) + to_hours(h) + to_minutes(m) + to_seconds(s)"""
_BY_ZERO = "division by zero: try_divide gives NULL instead"
# What a query may call in place of a table: nothing that reads files.
_TABLE_FUNCTIONS = ("UNNEST", "EXPLODE", "INLINE")


def open_engine() -> Any:  # a DuckDBPyConnection
    """A DuckDB that reads nothing but what is registered with it, and whose settings stay."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoload_known_extensions": "false",
            "autoinstall_known_extensions": "false",
            "allow_community_extensions": "false",
            "python_enable_replacements": "false",
        },
    )
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(_MAKE_INTERVAL)
    for name, sign in (("lakelog_divide", "/"), ("lakelog_remainder", "%")):
        connection.execute(f"CREATE MACRO {name}(a, b) AS CASE WHEN b = 0 THEN error('{_BY_ZERO}') ELSE a {sign} b END")
    return connection


@dataclass(kw_only=True)
class QueryTables:
    """The tables that the queries of one statement read: a table and a state of it are opened once."""

    names: SqlNames
    connection: Any = field(default_factory=open_engine)
    bases: dict[str, Snapshot | None] = field(default_factory=dict)
    sources: list[TableSource] = field(default_factory=list)
    _opened: dict[str, exp.Table] = field(default_factory=dict)
    _types: dict[str, set[pa.DataType]] = field(default_factory=dict)
    _locked: bool = False

    def run(self, query: exp.Expr) -> pa.Table:
        """The rows of a query. Raises InvalidRequestError for what DuckDB cannot run."""
        text = self.prepared(query).sql(dialect="duckdb")
        return self.run_prepared(text)

    def run_prepared(self, text: str) -> pa.Table:
        """The rows of a query in DuckDB's SQL, whose tables are registered."""
        if not self._locked:
            self.connection.execute("SET disabled_filesystems = 'LocalFileSystem'")
            self.connection.execute("SET lock_configuration = true")
            self._locked = True
        try:
            return self.connection.sql(text).to_arrow_table()
        except duckdb.Error as error:
            cause = error.__cause__
            if isinstance(cause, LakelogError):
                raise cause from error
            raise InvalidRequestError(_sentence(error)) from error

    def recording(self, table: Table) -> Table:
        """A handle of a table whose commit records the tables that were read, if commits to the table record any."""
        if not LINEAGE_CAPTURE.of(table.schema.options):
            return table
        return with_lineage(table, BatchLineage(sources=tuple(self.sources)))

    def prepared(self, query: exp.Expr) -> exp.Expr:
        """A copy of a query that names registered relations in place of tables."""
        made = exp.Paren(this=query.copy())  # a query may be a table itself
        for select in made.find_all(exp.Select):
            select.set("hint", None)  # hints of Spark say how, not what
        for column in list(made.find_all(exp.Column)):
            self._shorten(column)
        for table in list(made.find_all(exp.Table)):
            self._replace(table)
        as_duckdb(made, self._types, catalog=self.names.catalog, database=self.names.database)
        inner: exp.Expr = made.this
        return inner

    def _shorten(self, column: exp.Column) -> None:
        """`database.table.column` by the name of the table alone; `column.field.field` as a field of a field."""
        parts = [part.copy() for part in column.parts]
        if len(parts) < _LONG:
            return
        names = [part.name.lower() for part in parts]
        tables = {table.alias_or_name.lower(): table for table in column.root().find_all(exp.Table)}
        for depth in (2, 1, 0):
            table = tables.get(names[depth])
            if table is None or depth + 1 >= len(parts):
                continue
            if names[:depth] == [part.name.lower() for part in table.parts][-depth - 1 : -1] or depth == 0:
                made: exp.Expr = exp.Column(this=parts[depth + 1], table=parts[depth])
                fields = parts[depth + 2 :]
                break
        else:
            made, fields = exp.Column(this=parts[1], table=parts[0]), parts[2:]
        column.replace(exp.Dot.build([made, *fields]) if fields else made)

    def _replace(self, table: exp.Table) -> None:
        if not isinstance(table.this, exp.Identifier):
            _replace_function(table)
            return
        if not table.db and _is_of_query(table):
            return
        view = self.names.view(table)
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name, quoted=True))
        if view is not None:
            table.replace(exp.Subquery(this=self.prepared(view), alias=alias.copy(), **_around(table)))
            return
        made = exp.Table(this=exp.to_identifier(self._registered(table), quoted=True), alias=alias.copy())
        for key, value in _around(table).items():
            made.set(key, value)
        table.replace(made)

    def _registered(self, table: exp.Table) -> str:
        """The name of the relation of a table at its state."""
        found = self.names.found(table)
        clauses = table.args.get("version")
        state = "" if clauses is None else f" {clauses.sql(dialect=LakelogDialect)}"
        name = f"{found}{state}"
        if name not in self._opened:
            relation = self._relation(found, clauses)
            for column in getattr(relation, "schema", None) or found.table.schema.arrow_schema:
                self._types.setdefault(column.name.lower(), set()).add(column.type)
            self.connection.register(name, relation)
            self._opened[name] = table
        return name

    def _choice(self, clauses: exp.Expr | None, options: Mapping[str, str]) -> SnapshotChoice:
        """The state that the clauses of a table and its options name. Raises InvalidRequestError for two."""
        choice = _choice_of(options)
        version = None if clauses is None else clauses.args.get("version")
        if version is not None:
            if set(choice) - {"branch"}:
                raise InvalidRequestError("a table has two states, one in its words and one in options: leave one out")
            choice["timestamp" if version.name == "TIMESTAMP" else "version"] = self._value(version.expression)
        return choice  # type: ignore[return-value]  # its keys are those of the type

    def _value(self, given: exp.Expr) -> Any:  # what SnapshotChoice takes
        """The value of an expression without columns, such as a query of one row."""
        if isinstance(given, exp.Literal):
            return literal_of(given)
        if given.find(exp.Column) is not None and given.find(exp.Query) is None:
            raise InvalidRequestError(f"{shown(given.sql())} names a column: a state is a value")
        made = exp.select(exp.alias_(given.copy(), "value"))
        rows = self.connection.sql(self.prepared(made).sql(dialect="duckdb")).to_arrow_table()
        value = rows["value"][0].as_py() if rows.num_rows else None
        if value is None:
            raise InvalidRequestError(f"{shown(given.sql())} is NULL: a state is a number, a string or a time")
        return value

    def _relation(self, found: FoundName, clauses: exp.Expr | None) -> Any:  # what DuckDB registers
        options = {} if clauses is None else _options(clauses.args.get("options"))
        choice = self._choice(clauses, options)
        changes = None if clauses is None else clauses.args.get("changes")
        if changes is not None:
            return changes_of(found, changes, options)
        _check_known(found, options)
        if names_system_table(found.full, in_warehouse=True):
            between = _between(options)
            return found.catalog.system_table(found.full, **between, **choice).to_arrow()
        files = found.table.store
        if choice:
            shown, snapshot = files.travelled(**choice)
        else:
            shown, snapshot = files, self.bases[str(found)] if str(found) in self.bases else files.snapshot()
            if snapshot is not None:
                choice = {"snapshot_id": snapshot.id}
        read = source_of_table(shown, mode=ReadMode.BATCH)
        self.sources.append(replace(read, end=version_of(snapshot), is_exact=True))
        if snapshot is None:
            return shown.schema.arrow_schema.empty_table()
        return files.to_duckdb(connection=self.connection, **choice)


def _choice_of(options: Mapping[str, str]) -> dict[str, Any]:
    found = {_STATES[key]: (key, value) for key, value in options.items() if key in _STATES}
    return {name: int(value) if key in _NUMBERS and value.isdigit() else value for name, (key, value) in found.items()}


def _check_known(found: FoundName, options: Mapping[str, str]) -> None:
    """Raise UnsupportedError for an option of a read that is not known here."""
    unknown = sorted(set(options) - set(_STATES) - {"incremental-between"})
    if unknown:
        raise UnsupportedError(
            f"WITH ({unknown[0]} = ...) behind {found}: expected one of {', '.join(sorted(_STATES))}"
        )


def _options(given: list[exp.Expr] | None) -> dict[str, str]:
    """{key: value} of WITH (key = value, ...)."""
    found: dict[str, str] = {}
    for one in given or ():
        if not isinstance(one, exp.EQ):
            raise InvalidRequestError(f"WITH ({one.sql()}): expected key = value")
        key = one.this.name if isinstance(one.this, exp.Literal) else ".".join(part.name for part in one.this.parts)
        found[key] = one.expression.name
    return found


def _between(options: Mapping[str, str]) -> dict[str, int]:
    given = options.get("incremental-between")
    if given is None:
        return {}
    first, _, last = given.partition(",")
    if not (first.strip().isdigit() and last.strip().isdigit()):
        raise InvalidRequestError(f"incremental-between={given!r}: expected two snapshots such as 1,2")
    return {"after": int(first), "up_to": int(last)}


def _is_of_query(table: exp.Table) -> bool:
    """Whether a name is that of a common table expression which the table may see."""
    name = table.name.lower()
    above: exp.Expr | None = table
    while above is not None:
        with_ = above.args.get("with_")
        if isinstance(with_, exp.With) and any(one.alias.lower() == name for one in with_.expressions):
            return True
        above = above.parent
    return False


def _around(table: exp.Table) -> dict[str, Any]:
    kept = ("joins", "laterals", "pivots", "sample")
    return {key: value for key in kept if (value := table.args.get(key))}


def _replace_function(table: exp.Table) -> None:
    """A table function; `range` has a column `id`, as in Spark. Raises NotFoundError for one that reads files."""
    function = table.this
    name = function.name if isinstance(function, exp.Anonymous) else type(function).__name__
    if name.lower() == "range":
        rows = exp.select(exp.alias_(exp.column("range", quoted=True), "id")).from_(exp.Table(this=function.copy()))
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier("range"))
        table.replace(exp.Subquery(this=rows, alias=alias.copy(), **_around(table)))
    elif isinstance(function, exp.Func) and name.upper() not in _TABLE_FUNCTIONS:
        raise NotFoundError(f"there is no table function {shown(name)}; a query reads tables")


def _sentence(error: Exception) -> str:
    lines: Iterator[str] = iter(str(error).splitlines())
    kept = [next(lines, "")]
    kept += [line for line in lines if line.startswith(("Candidate", "Did you"))]
    return " ".join(kept)

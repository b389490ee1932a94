"""The tables of a query for DuckDB: each at one snapshot, with columns and filters pushed into our reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any  # Any: duckdb is an optional extra without types here

import pyarrow as pa
from sqlglot import ErrorLevel, exp

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import quoted, shown
from lakelog.filestore.metadata.origins import TableSource
from lakelog.filestore.refs import SnapshotChoice
from lakelog.lineage.records.sources import state_read
from lakelog.sql.language.dialect import LakelogDialect
from lakelog.sql.language.names import FoundName, SqlNames
from lakelog.sql.language.parsing import by_sqlglot, literal_of
from lakelog.sql.language.spans import Edit, name_span, note_edits, source_of
from lakelog.sql.language.taken import QUERY, check_node
from lakelog.sql.queries.engine import TEMPORARY, ReaderErrors, told
from lakelog.sql.queries.kept import kept_engine
from lakelog.sql.queries.long_lists import replace_lists
from lakelog.sql.queries.read_options import check_known, choice_of, fresh_of, options_of, system_rows
from lakelog.sql.queries.selects import named
from lakelog.sql.queries.table_words import (
    SCHEMA,
    around,
    as_typed,
    check_cases,
    is_changed,
    is_of_query,
    note_names,
    shorten_names,
    states_of,
)
from lakelog.warehouse.system_names import names_system_table

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.metadata.snapshots import Snapshot


_BATCH_ROWS = 65_536
_BEFORE, _TWIN = " before", " twin"  # behind names of relations


@dataclass(kw_only=True)
class QueryTables(ReaderErrors):
    """The tables that the queries of one statement read: a table and a state of it are opened once.

    `bases` are the snapshots of tables, by their full names, that are read without a named state, in place of the
    newest ones. `sources` are the states that were read, by name and state; `newest` those of `bases`, and the newest
    snapshots of other tables. `given` are rows that are read in place of tables, by their names.
    """

    names: SqlNames
    connection: Any = field(init=False)
    bases: dict[str, Snapshot | None] = field(default_factory=dict)
    sources: dict[str, TableSource] = field(default_factory=dict)
    newest: dict[str, Snapshot | None] = field(default_factory=dict)
    given: Mapping[str, pa.Table] = field(default_factory=dict)
    _opened: dict[str, str] = field(default_factory=dict)
    _types: dict[str, set[pa.DataType]] = field(default_factory=dict)
    _typed: dict[str, str] = field(default_factory=dict)  # names of relations, as the statement has them
    _lists: int = 0

    def __post_init__(self) -> None:
        self.connection = kept_engine(self.names).connection()

    def run(self, query: exp.Expr) -> pa.Table:
        """The rows of a query. Raises InvalidRequestError for what DuckDB cannot run."""
        text = self.text_of(query)
        return self.run_prepared(text)

    def stream(self, query: exp.Expr) -> pa.RecordBatchReader:
        """The rows of a query as they arrive. Raises InvalidRequestError, the reader too."""
        text = self.text_of(query)
        with self._running():
            rows = self.connection.sql(text).to_arrow_reader(_BATCH_ROWS)
        names = [as_typed(name, self._typed) for name in rows.schema.names]
        schema = pa.schema([one.with_name(name) for one, name in zip(rows.schema, names, strict=True)])

        def batches() -> Iterator[pa.RecordBatch]:
            with self.noted(), self._running():
                for batch in rows:
                    yield batch.rename_columns(names)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def run_prepared(self, text: str) -> pa.Table:
        """The rows of a query in DuckDB's SQL, whose tables are registered."""
        with self._running():
            rows = self.connection.sql(text).to_arrow_table()
        return rows.rename_columns([as_typed(name, self._typed) for name in rows.column_names])

    def plan_of(self, query: exp.Expr) -> list[dict[str, Any]]:
        """DuckDB's plan of a query: steps with `name`, `children` and `extra_info`. Raises InvalidRequestError."""
        text = self.text_of(query)
        with self._running():
            found: list[dict[str, Any]] = json.loads(
                self.connection.sql(f"EXPLAIN (FORMAT json) {text}").fetchall()[0][1]
            )
        return found

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Let `SqlConnection.interrupt` end what DuckDB does in the block. Raises as `told`."""
        with self.names.interrupts.engine(self.connection), told():
            yield

    def prepared(self, query: exp.Expr) -> exp.Expr:
        """A copy of a query that names registered relations in place of tables."""
        planning = self.names.interrupts.planning
        with planning():
            made = exp.Paren(this=query.copy())  # a query may be a table itself
            shorten_names(made)
        for table in list(made.find_all(exp.Table)):
            self._replace(table)
        with planning():
            replace_lists(made, self._types, self._register_list)
        inner: exp.Expr = made.this
        return inner

    def text_of(self, query: exp.Expr) -> str:
        """A query in DuckDB's SQL, whose tables are registered."""
        return self._written(self.prepared(query))

    def _written(self, prepared: exp.Expr) -> str:
        with self.names.interrupts.planning(), by_sqlglot("the query"):
            return prepared.sql(dialect=LakelogDialect, unsupported_level=ErrorLevel.RAISE)

    def _register_list(self, rows: pa.Table) -> exp.Table:
        self._lists += 1
        self.connection.register(f"list {self._lists}", rows)
        return exp.table_(f"list {self._lists}", *SCHEMA, quoted=True)

    def _replace(self, table: exp.Table) -> None:
        if not isinstance(table.this, exp.Identifier) or is_of_query(table) or self.names.is_file(table):
            return
        check_node(table, QUERY)
        if self.names.is_temporary(table):
            place = name_span(table)
            table.set("db", exp.to_identifier(TEMPORARY))
            if place is not None:
                note_edits(table, Edit(source_of(table), place[0], place[0], f"{TEMPORARY}."))
            return
        view, frame = self.names.view(table), self.names.frame(table)
        clauses = table.args.get("version") or table.args.get("when")
        if clauses is not None and not (view is None and frame is None):
            raise UnsupportedError(
                f"{shown(clauses.sql(dialect=LakelogDialect))} behind {table.name}: a table has states"
            )
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name, quoted=True))
        made: exp.Expr
        if view is not None:
            prepared = self.prepared(view)
            made = exp.Subquery(this=prepared, alias=alias.copy(), **around(table))
            text = f"({self._written(prepared)})"
        else:
            name = self._registered(table, frame)
            self._typed.setdefault(name, ".".join(part.sql(dialect=LakelogDialect) for part in table.parts))
            relation = exp.table_(name, *SCHEMA, quoted=True)
            text = relation.sql(dialect=LakelogDialect)
            made = relation
            for key, value in {"alias": alias.copy(), **around(table)}.items():
                made.set(key, value)
        note_names(table, made, text, alias.sql(dialect=LakelogDialect))
        table.replace(made)

    def _registered(self, table: exp.Table, frame: Any) -> str:
        """The name of the relation of a table at its state."""
        if not table.db and table.name in self.given:
            return self._note(table.name, lambda relation: self._register_rows(relation, self.given[table.name]))
        if frame is not None:
            return self._note(table.name, lambda relation: self._register_frame(relation, frame))
        found = self.names.resolved(table)
        if is_changed(table):
            return self._note(f"{found}{_BEFORE}", lambda relation: self._register_changed(relation, found))
        clauses = [one for key in ("version", "when") if (one := table.args.get(key)) is not None]
        name = " ".join([f"{found}", *(one.sql(dialect=LakelogDialect) for one in clauses)])
        return self._note(name, lambda relation: self._register(name, relation, found, table))

    def _note(self, name: str, register: Callable[[str], pa.Schema]) -> str:
        """Register a relation, once, and note its columns; returns its name in DuckDB, where case does not count."""
        if name not in self._opened:
            relation = name
            while relation.lower() in map(str.lower, self._opened.values()):
                relation += _TWIN
            columns = register(relation)
            check_cases(columns.names, name_of_table(name))
            for column in columns:
                self._types.setdefault(column.name.lower(), set()).add(column.type)
            self._opened[name] = relation
        return self._opened[name]

    def _choice(self, table: exp.Table, options: Mapping[str, str]) -> SnapshotChoice:
        """The state that the clauses of a table and its options name. Raises InvalidRequestError for two."""
        choice = choice_of(options)
        for version in states_of(table):
            if set(choice) - {"branch"}:
                raise InvalidRequestError("a table has two states, one in its words and one in options: leave one out")
            choice["timestamp" if version.is_time else "version"] = self._value(version.value)
        return choice  # type: ignore[return-value]  # its keys are those of the type

    def _value(self, given: exp.Expr) -> Any:  # what SnapshotChoice takes
        """The value of an expression without columns, such as a query of one row."""
        if isinstance(given, exp.Literal):
            return literal_of(given)
        if given.find(exp.Column) is not None and given.find(exp.Query) is None:
            raise InvalidRequestError(f"{shown(given.sql())} names a column: a state is a value")
        made = exp.select(named(given.copy(), "value"))
        rows = self.run(made)
        value = rows["value"][0].as_py() if rows.num_rows else None
        if value is None:
            raise InvalidRequestError(f"{shown(given.sql())} is NULL: a state is a number, a string or a time")
        return value

    def _register(self, name: str, relation: str, found: FoundName, table: exp.Table) -> pa.Schema:
        """Register the relation of a table at its state; returns its columns."""
        clauses = table.args.get("version")
        options = {} if clauses is None else options_of(clauses.args.get("options"))
        choice = self._choice(table, options)
        changes = None if clauses is None else clauses.args.get("changes")
        if changes is not None:
            from lakelog.sql.queries.changes import changes_of

            return self._register_rows(relation, changes_of(found, changes, options))
        check_known(found, options)
        if names_system_table(found.full, in_warehouse=True):
            return self._register_rows(relation, system_rows(found, choice, options))
        fresh = fresh_of(options)
        if fresh or (fresh is None and self.names.is_fresh and not choice and str(found) not in self.bases):
            return self._register_fresh(name, relation, found, choice)
        files = found.table.store
        if choice:
            shown, snapshot = files.travelled(**choice)
        else:
            shown, snapshot = files, self.bases[str(found)] if str(found) in self.bases else files.snapshot()
            self.newest[str(found)] = snapshot
            if snapshot is not None:
                choice = {"snapshot_id": snapshot.id}
        self.sources[name] = state_read(shown, snapshot)
        self._register_table(relation, shown, snapshot, choice)
        return shown.schema.arrow_schema

    def _register_fresh(self, name: str, relation: str, found: FoundName, choice: SnapshotChoice) -> pa.Schema:
        """Register the rows of the newest snapshot and of the log behind it; returns the columns."""
        shown = found.table.at(fresh=True, **choice).store
        self.sources[name] = state_read(shown, shown.pinned)
        self._register_table(relation, shown, shown.pinned, {})
        return shown.schema.arrow_schema

    def _register_changed(self, name: str, found: FoundName) -> pa.Schema:
        """Register the rows that a statement changes, see `as_changed`; returns the columns."""
        from lakelog.filestore.write import is_by_place

        files = found.table.store
        files = files.placed if is_by_place(files) else files
        snapshot = self.newest[str(found)] = self.bases[str(found)] if str(found) in self.bases else files.snapshot()
        choice: SnapshotChoice = {} if snapshot is None else {"snapshot_id": snapshot.id}
        self._register_table(name, files, snapshot, choice)
        return files.schema.arrow_schema

    def _register_table(
        self, name: str, files: FileStoreTable, snapshot: Snapshot | None, choice: SnapshotChoice
    ) -> None:
        """Register the rows of a table at a snapshot, that of `choice`."""
        if snapshot is None:
            self._register_rows(name, files.schema.arrow_schema.empty_table())
        else:
            self._register_files(name, files, snapshot, choice)

    def _register_rows(self, name: str, rows: pa.Table) -> pa.Schema:
        self.connection.register(name, rows)
        return rows.schema

    def _register_frame(self, name: str, frame: Any) -> pa.Schema:
        self.connection.register(name, frame)
        schema: pa.Schema = self.connection.table(quoted(name)).limit(0).to_arrow_table().schema
        return schema

    def _register_files(self, name: str, files: FileStoreTable, snapshot: Snapshot, choice: SnapshotChoice) -> None:  # noqa: ARG002  # for plans
        """Register the rows of a table at a snapshot, that of `choice`."""
        view = None if snapshot.is_in_memory else kept_engine(self.names).view_of(files, snapshot)
        if view is None:
            from lakelog.filestore.read import snapshot_relation

            self.connection.register(name, snapshot_relation(self.connection, files, snapshot))
        else:
            self._view(name, "*", view)

    def _view(self, name: str, columns: str, below: str) -> None:
        self.connection.execute(f"CREATE TEMP VIEW {quoted(name)} AS SELECT {columns} FROM {quoted(below)}")


def run_query(names: SqlNames, query: exp.Expr) -> pa.Table:
    """The rows of a query."""
    return QueryTables(names=names).run(query)


def name_of_table(relation: str) -> str:
    """The name of the table, and its state, of a relation."""
    return relation.replace(_TWIN, "").removesuffix(_BEFORE)

"""What is read of the statements that lakelog handles itself: every other part of one is refused by its name.

sqlglot reads more than tables have. Each class of a node that is handled names the arguments that are read, in each
statement where it stands; the queries and expressions in them are DuckDB's, and are written as they were read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias  # Any: values of sqlglot's arguments

from sqlglot import exp

from lakelog.common.errors import UnsupportedError
from lakelog.common.quoting import shown
from lakelog.sql.language.dialect import LakelogDialect
from lakelog.sql.language.tolerance import Unread
from lakelog.sql.language.writers import ChangesClause, TableClauses, WatermarkClause

QUERY = "FROM"  # stands for the statement, of a table that a query reads
_NAME = "this db catalog"
_Kinds: TypeAlias = dict[type[exp.Expr], str]
_ALIASED: _Kinds = {exp.Table: f"{_NAME} alias", exp.TableAlias: "this"}
_COLUMNS: _Kinds = {
    exp.ColumnConstraint: "kind",
    exp.CommentColumnConstraint: "this",
    exp.Properties: "expressions",
    exp.Property: "this value",
    exp.SchemaCommentProperty: "this",
}
_PARTITION: _Kinds = {exp.Partition: "expressions"}
_DATABASE: _Kinds = {exp.Table: _NAME}
# The arguments that are read, by statement and class; under an empty name those of a table that nothing is said about.
TAKEN: Mapping[str, _Kinds] = {
    "": {exp.Table: _NAME},
    QUERY: {
        exp.Table: f"{_NAME} alias version when joins pivots sample",
        TableClauses: "version changes options",
        ChangesClause: "this expression excludes_first to excludes_last",
        exp.Version: "this kind expression",
        exp.HistoricalData: "this kind expression",
    },
    "INSERT": {
        exp.Insert: "this expression overwrite by_name where with_ alternative default",
        exp.Table: f"{_NAME} alias partition version",
        exp.TableAlias: "this",
        TableClauses: "options",
        exp.Schema: "this expressions",
        **_PARTITION,
    },
    "UPDATE": {exp.Update: "this expressions from_ where with_", **_ALIASED},
    "DELETE": {exp.Delete: "this using where with_", **_ALIASED},
    "MERGE": {
        exp.Merge: "this using on using_cond whens with_",
        exp.Whens: "expressions",
        exp.When: "matched source condition then",
        exp.Insert: "this expression",
        exp.Update: "expressions",
        **_ALIASED,
    },
    "TRUNCATE": {exp.TruncateTable: "expressions partition", **_DATABASE, **_PARTITION},
    "CREATE TABLE": {
        exp.Create: "this kind expression exists properties replace",
        exp.Table: _NAME,
        **_COLUMNS,
        exp.Schema: "this expressions",
        exp.ColumnDef: "this kind constraints",
        exp.NotNullColumnConstraint: "allow_null",
        exp.DefaultColumnConstraint: "this",
        exp.PrimaryKeyColumnConstraint: "options",
        exp.ComputedColumnConstraint: "this",
        exp.PrimaryKey: "expressions options include",
        exp.IndexParameters: "",
        exp.Constraint: "this expressions",
        exp.FileFormatProperty: "this",
        exp.PartitionedByProperty: "this",
        exp.ClusteredByProperty: "expressions buckets",
        exp.LikeProperty: "this",
        exp.TemporaryProperty: "",
        WatermarkClause: "this expression",
    },
    "CREATE VIEW": {
        exp.Create: "this kind expression exists properties replace",
        exp.Table: _NAME,
        exp.Properties: "expressions",
        exp.TemporaryProperty: "",
    },
    "CREATE DATABASE": {exp.Create: "this kind exists", **_DATABASE},
    "DROP TABLE": {exp.Drop: "tables kind exists purge", exp.Table: _NAME},
    "DROP VIEW": {exp.Drop: "tables kind exists", exp.Table: _NAME},
    "DROP DATABASE": {exp.Drop: "tables kind exists cascade restrict", **_DATABASE},
    "ALTER TABLE": {
        exp.Alter: "this kind actions",
        exp.Table: f"{_NAME} partition",
        **_COLUMNS,
        exp.Schema: "expressions",
        exp.ColumnDef: "this kind constraints exists position",
        exp.ColumnPosition: "this position",
        exp.Drop: "tables kind exists",
        exp.RenameColumn: "this to",
        exp.AlterRename: "this",
        exp.AlterSet: "expressions",
        exp.AlterColumn: "this dtype default drop comment allow_null rename_to",
        exp.DropPartition: "expressions exists",
        **_PARTITION,
    },
    "COMMENT TABLE": {exp.Comment: "this kind expression", exp.Table: _NAME},
    "USE": {exp.Use: "this kind", **_DATABASE},
    "REFRESH": {exp.Refresh: "this kind", **_DATABASE},
}
_ROOTS = tuple({next(iter(kinds)) for name, kinds in TAKEN.items() if name not in ("", QUERY)})
_WORDS = {"SCHEMA": "DATABASE", "NAMESPACE": "DATABASE", "TRUNCATETABLE": "TRUNCATE"}
# Arguments with queries and expressions, which DuckDB reads.
_DUCKDBS = ("expression", "using", "on", "using_cond", "condition", "from_", "where", "with_")
# Words that are read, of arguments that may have others.
_VALUES: Mapping[tuple[type[exp.Expr], str], Sequence[str]] = {
    (exp.Insert, "alternative"): ("REPLACE",),
    (exp.PrimaryKey, "options"): ("NOT ENFORCED",),
    (exp.PrimaryKeyColumnConstraint, "options"): ("NOT ENFORCED",),
    (exp.Use, "kind"): ("DATABASE", "SCHEMA", "NAMESPACE", "CATALOG"),
    (exp.When, "then"): ("DELETE", "DO NOTHING"),
    (exp.Version, "kind"): ("AS OF",),
}
_PLAIN = (exp.Condition, exp.Query, exp.Identifier, exp.DataType, exp.Var, exp.Star, exp.Tuple, Unread)
_BY_KEY = (
    "INSERT INTO and INSERT OR REPLACE replace the row with the same primary key, MERGE ... WHEN NOT MATCHED THEN "
    "INSERT BY NAME keeps it"
)
_WHY: Mapping[type[exp.Expr] | str, str] = {
    exp.LocationProperty: "tables of a catalog are in its warehouse; leave it out",
    exp.NotNullColumnConstraint: "rows that exist have null in a new column; leave it out",
    exp.DefaultColumnConstraint: "rows that exist have null in a new column; leave it out",
    exp.OnConflict: _BY_KEY,
    "IGNORE": _BY_KEY,
    "returning": "a statement answers without rows; read them with SELECT",
    "location": "SET LOCATION moves no table: it is where its name says; RENAME moves it",
    "properties": "a database is a folder of the warehouse, without properties; leave them out",
}


def check_taken(statement: exp.Expr) -> None:
    """Raise UnsupportedError for a part of a statement that is not read; queries are DuckDB's."""
    if isinstance(statement, _ROOTS):
        name = name_of(statement)
        if name not in TAKEN:
            raise UnsupportedError(f"{name}: there is no such statement here")
        check_node(statement, name)


def check_node(node: exp.Expr, statement: str = "") -> None:
    """Raise UnsupportedError for an argument of a node, or of the nodes in it, that the statement does not read."""
    kinds = TAKEN[statement]
    known = kinds[type(node)].split()
    for name, value in node.args.items():
        for one in value if isinstance(value, list) else [value]:
            if one is None or one is False:
                continue
            words = _VALUES.get((type(node), name), ())
            is_word = bool(words) and isinstance(one, str | exp.Var)
            if name not in known or (is_word and str(one).upper() not in words):
                raise _refused(one, statement, "" if is_word else name)
            if name in _DUCKDBS or not isinstance(one, exp.Expr):
                continue
            if type(one) in kinds:
                check_node(one, statement)
            elif not isinstance(one, _PLAIN) and statement != QUERY:
                raise _refused(one, statement)


def _refused(part: Any, statement: str, name: str = "") -> UnsupportedError:
    """The error of a part of a statement; `name` is that of its argument."""
    word = "" if name in ("this", "expressions") else name.strip("_").replace("_", " ").upper()
    text = part.sql(dialect=LakelogDialect) if isinstance(part, exp.Expr) else "" if part is True else str(part)
    text = text if word in text.upper() else f"{word} {text}".strip()
    why = _WHY.get(type(part)) or _WHY.get(name) or _WHY.get(text) or "leave it out"
    of = f"{statement}: " if statement else ""
    return UnsupportedError(f"{of}{shown(text)} has no meaning in this statement; {why}")


def name_of(statement: exp.Expr) -> str:
    """The statement in `TAKEN`."""
    words = [statement.key.upper()]
    if isinstance(statement, exp.Create | exp.Drop | exp.Alter | exp.Comment):
        words.append(str(statement.args.get("kind")).upper())
    return " ".join(_WORDS.get(word, word) for word in words)

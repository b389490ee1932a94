"""CREATE TABLE of Spark as a table of a warehouse.

Source: Spark, `org.apache.spark.sql.connector.catalog.TableInfo`; Paimon, "Spark DDL", for the properties `primary-key`
and `partition`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any  # Any: py4j gives Java objects without types

from lakelog.catalog.columns.session_defaults import PREFIX, call_defaults, with_defaults
from lakelog.catalog.staging import NewTable
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.options import parse_names
from lakelog.spark.catalog_plugin.column_defaults import with_column_defaults
from lakelog.spark.catalog_plugin.java.jvm import Jvm
from lakelog.spark.session import FORMAT, java_strings
from lakelog.spark.types import from_spark_schema
from lakelog.warehouse.identifier import Identifier

if TYPE_CHECKING:
    from lakelog.catalog import Catalog

_PROVIDER, _COMMENT, _LOCATION = "provider", "comment", "location"
PRIMARY_KEY, PARTITION = "primary-key", "partition"
_BUCKET, _BUCKET_KEY = "bucket", "bucket-key"
# What Spark itself adds to the properties of a table.
_OF_SPARK = frozenset({"owner", "external", "is_managed_location", "table_type", "collation"})
_OPTION_PREFIX = "option."
_DEFAULT_PROVIDER = "spark.sql.sources.default"


def new_table(
    jvm: Jvm, catalog: Catalog, name: str, info: Any, *, has_defaults: bool = True
) -> NewTable:  # a Java TableInfo
    """The table that CREATE TABLE describes; options are its TBLPROPERTIES and OPTIONS.

    Without `has_defaults` the columns have none: Spark gives a query the defaults of the tables that it reads.

    Raises InvalidRequestError, and UnsupportedError for what a table cannot have.
    """
    properties = {str(key): str(value) for key, value in java_strings(info.properties()).items()}
    default = str(jvm.session.conf.get(_DEFAULT_PROVIDER))  # what Spark writes for `toTable` without a format
    provider = properties.pop(_PROVIDER, FORMAT)
    if provider.lower() not in (FORMAT, "paimon", default.lower()):
        raise UnsupportedError(f"table {name}: USING {provider}: tables here are USING lakelog; leave it out")
    own, location = Identifier.parse(name).path(catalog.warehouse), properties.pop(_LOCATION, None)
    if location is not None and location.removeprefix("file:").rstrip("/") != own.rstrip("/"):
        raise UnsupportedError(
            f"table {name}: LOCATION {location!r}: tables of this catalog are in its warehouse, this one at {own}; "
            "leave it out"
        )
    comment = properties.pop(_COMMENT, None)
    options = {
        key: value for key, value in properties.items() if key not in _OF_SPARK and not key.startswith(_OPTION_PREFIX)
    }
    for key, value in properties.items():
        if key.startswith(_OPTION_PREFIX):
            options.setdefault(key.removeprefix(_OPTION_PREFIX), value)
    keys = _one_of(name, "primary key", parse_names(options.pop(PRIMARY_KEY, "")), _primary_key(name, info))
    partitions, buckets = _partitioning(name, info)
    options = with_defaults(options, _session_defaults(jvm))
    for key, value in buckets.items():
        if options.setdefault(key, value) != value:
            raise InvalidRequestError(
                f"table {name}: {key}={options[key]} in its properties, CLUSTERED BY says {value}"
            )
    for column in info.columns():
        _check_plain(name, column)
    columns = from_spark_schema(jvm.python_schema(info.schema()))
    if has_defaults:
        columns = with_column_defaults(columns, info.columns())
    return NewTable(
        schema=columns,
        primary_keys=keys,
        partition_keys=_one_of(name, "partition", parse_names(options.pop(PARTITION, "")), partitions),
        options=options,
        comment=comment,
    )


def like(source: Any, made: NewTable) -> NewTable:  # a Java Table
    """A table of CREATE TABLE LIKE: with the comment of the source and, from a table of a warehouse, its options."""
    properties = {str(key): str(value) for key, value in java_strings(source.properties()).items()}
    comment, is_ours = properties.pop(_COMMENT, None), properties.pop(_PROVIDER, "") == FORMAT
    left_out = {*_OF_SPARK, _LOCATION, PRIMARY_KEY, PARTITION}
    kept = {key: value for key, value in properties.items() if key not in left_out} if is_ours else {}
    return NewTable(**{**made, "options": {**kept, **made["options"]}, "comment": made["comment"] or comment})


def _session_defaults(jvm: Jvm) -> dict[str, str]:
    """The options for new tables in the conf of the session, `table-storage.<option>`. Raises OptionError."""
    found = java_strings(jvm.session._jsparkSession.conf().getAllAsJava())
    return call_defaults({key: value for key, value in found.items() if key.startswith(PREFIX)})


def _one_of(name: str, what: str, in_properties: tuple[str, ...], in_words: tuple[str, ...]) -> tuple[str, ...]:
    if in_properties and in_words and in_properties != in_words:
        raise InvalidRequestError(
            f"table {name}: the {what} is {', '.join(in_words)} in the statement and {', '.join(in_properties)} in its "
            "properties: give it once"
        )
    return in_words or in_properties


def _primary_key(name: str, info: Any) -> tuple[str, ...]:  # a Java TableInfo
    """The columns of the constraint PRIMARY KEY. Raises UnsupportedError for other constraints."""
    found: tuple[str, ...] = ()
    for constraint in info.constraints():
        kind = constraint.getClass().getSimpleName()
        if kind != "PrimaryKey":
            raise UnsupportedError(
                f"table {name}: {constraint.toDDL()}: a table has a primary key and no other constraint; leave it out"
            )
        found = tuple(".".join(column.fieldNames()) for column in constraint.columns())
    return found


def _partitioning(name: str, info: Any) -> tuple[tuple[str, ...], dict[str, str]]:  # a Java TableInfo
    """The partition columns, and the options of CLUSTERED BY. Raises UnsupportedError for other transforms."""
    columns: list[str] = []
    options: dict[str, str] = {}
    for transform in info.partitions():
        names = [".".join(reference.fieldNames()) for reference in transform.references()]
        match transform.name():
            case "identity":
                columns += names
            case "bucket":
                options = {_BUCKET: str(transform.numBuckets().value()), _BUCKET_KEY: ",".join(names)}
            case other:
                raise UnsupportedError(
                    f"table {name}: PARTITIONED BY {transform.toString()}: a table is partitioned by columns, not by "
                    f"{other}; add a column with that value"
                )
    return tuple(columns), options


def _check_plain(name: str, column: Any) -> None:  # a Java Column
    """Raise UnsupportedError for a column that is computed."""
    if column.generationExpression() is not None or column.identityColumnSpec() is not None:
        raise UnsupportedError(
            f"table {name}, column {column.name()!r}: a column that is computed by itself; leave GENERATED out, and "
            "write its values"
        )

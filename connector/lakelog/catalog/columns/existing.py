"""How an existing table differs from the one asked for: by `create_table(if_not_exists=True)`, or by REPLACE TABLE."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import listed, shown
from lakelog.filestore.options import is_same
from lakelog.filestore.schema import TableSchema

logger = logging.getLogger("lakelog.catalog")


def check_existing(found: TableSchema, asked: TableSchema, options: Mapping[str, str], *, table_name: str) -> None:
    """Compare a table with what was asked for; `options` are those of the call. Pure, but for the log.

    Raises InvalidRequestError for other keys or partition columns: what the caller writes would become other rows.
    Other columns and options are logged as a warning, except columns that were added since.
    """
    _check_keys("primary key", found.primary_keys, asked.primary_keys, table_name)
    _check_keys("partition columns", found.partition_keys, asked.partition_keys, table_name)
    differences = [*_columns(found, asked), *_options(found, options)]
    if differences:
        logger.warning(
            "table %s exists and stays as it is, with if_not_exists; it differs from what was asked for: %s",
            table_name,
            listed(differences),
        )


def check_replaced(found: TableSchema, asked: TableSchema, options: Mapping[str, str], *, table_name: str) -> None:
    """Raise UnsupportedError unless a table that replaces another one has its columns and keys; `options` as above."""
    # The columns of a query take null, which the write of its rows checks.
    differences = [*_columns(_nullable(found), _nullable(asked)), *_options(found, options)]
    for what, own, wanted in (
        ("columns", [field.name for field in found.fields], [field.name for field in asked.fields]),
        ("primary key", found.primary_keys, asked.primary_keys),
        ("partition columns", found.partition_keys, asked.partition_keys),
    ):
        if not differences and tuple(own) != tuple(wanted):
            differences.append(f"its {what} are {listed(own) or 'none'}, not {listed(wanted) or 'none'}")
    if asked.comment is not None and asked.comment != found.comment:
        differences.append(f"its comment is {shown(found.comment)}, not {shown(asked.comment)}")
    if differences:
        raise UnsupportedError(
            f"REPLACE TABLE {table_name}: {listed(differences)}. A table that is replaced keeps its history, and so "
            "its columns, keys and options: change these with ALTER TABLE before, or DROP TABLE and CREATE TABLE"
        )


def _nullable(schema: TableSchema) -> TableSchema:
    fields = (replace(field, type=field.type.with_nullable(True)) for field in schema.fields)
    return replace(schema, fields=tuple(fields))


def _check_keys(what: str, found: Sequence[str], asked: Sequence[str], table_name: str) -> None:
    if tuple(found) != tuple(asked):
        raise InvalidRequestError(
            f"table {table_name} exists with the {what} {listed(found) or 'none'}, and {listed(asked) or 'none'} was "
            "asked for; ask for what it has, choose another name, or drop it"
        )


def _columns(found: TableSchema, asked: TableSchema) -> Iterator[str]:
    types = {field.name: field.type for field in found.fields}
    for field in asked.fields:
        if field.name not in types:
            yield f"it lacks column {field.name} {field.type}"
        elif types[field.name] != field.type:
            yield f"column {field.name} is {types[field.name]}, not {field.type}"


def _options(found: TableSchema, options: Mapping[str, str]) -> Iterator[str]:
    for key, value in options.items():
        if key in found.options and not is_same(key, found.options[key], value):
            yield f"option {key} is {shown(found.options[key])}, not {shown(value)}"
        elif key not in found.options and key not in _KEYS:
            yield f"option {key} is not set, and not {shown(value)}"


_KEYS = frozenset({"primary-key", "partition"})  # they are moved into the schema and compared there

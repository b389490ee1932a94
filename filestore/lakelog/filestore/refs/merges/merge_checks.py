"""Checks what a three-way merge cannot do: other columns, tables that do not replace rows. Pure."""

from __future__ import annotations

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import listed
from lakelog.common.types import DataField
from lakelog.filestore.data.row_ids import has_row_groups
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.merging import IGNORE_DELETE, MERGE_ENGINE, SEQUENCE_FIELD
from lakelog.filestore.read.scan import check_readable
from lakelog.filestore.schema.paths import MAIN_BRANCH
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.write.changing import check_kinds_free
from lakelog.filestore.write.write import check_table_writable


def check_mergeable(main: TableStore, branch: TableStore) -> None:
    """Raise InvalidRequestError or UnsupportedError if rows of the branch cannot be merged into the table."""
    check_comparable(main, branch)
    for line in (main, branch) if main.schema.primary_keys else ():
        _check_replaces(line, main.name)


def check_comparable(main: TableStore, branch: TableStore) -> None:
    """Raise InvalidRequestError or UnsupportedError if the rows of the branch cannot become rows of the table."""
    check_table_writable(main)
    check_kinds_free(main, "a merge of a branch")
    for line in (main, branch):
        check_readable(line.stored)
        if has_row_groups(line.schema):
            raise UnsupportedError(
                f"table {main.name} keeps the columns of a row in several files (data-evolution.enabled): its branches "
                "cannot be merged yet; read the branch and write its rows"
            )
    _check_columns(main, branch)


def _check_columns(main: TableStore, branch: TableStore) -> None:
    name = branch.branch
    ours, theirs = main.schema, branch.schema
    added = [field for field in theirs.fields if field.name not in ours.field_names]
    if added:
        raise InvalidRequestError(
            f"branch {name!r} has column(s) {_spelled(added)}, which table {main.name} lacks: add them to the table "
            f"first, with alter(AddColumn(...)) or `lakelog table alter`, or drop them in the branch; then merge"
        )
    missing = [field for field in ours.fields if field.name not in theirs.field_names]
    if missing:
        raise InvalidRequestError(
            f"table {main.name} has column(s) {_spelled(missing)}, which branch {name!r} lacks: rows of the branch "
            f"would empty them; add them to the branch first, or drop them in the table; then merge"
        )
    other = [field for field in ours.fields if _kind(theirs.field(field.name)) != _kind(field)]
    if other:
        found = [theirs.field(field.name) for field in other]
        raise InvalidRequestError(
            f"column(s) {_spelled(other)} of table {main.name} are {_spelled(found)} in branch {name!r}: change the "
            "type on one side, so that both have the same; then merge"
        )
    if _layout(ours) != _layout(theirs):
        raise InvalidRequestError(
            f"table {main.name} has the key, partitions and kind {_layout(ours)}, its branch {name!r} "
            f"{_layout(theirs)}: their rows cannot be compared"
        )


def _kind(field: DataField) -> str:
    return str(field.type).removesuffix(" NOT NULL")


def _layout(schema: TableSchema) -> tuple[object, ...]:
    return schema.primary_keys, schema.partition_keys, schema.is_change_log


def _spelled(fields: list[DataField]) -> str:
    return listed(f"{field.name} {field.type}" for field in fields)


def _check_replaces(line: TableStore, table_name: str) -> None:
    """Raise UnsupportedError if the files of a line do not keep the last row of a key."""
    options = line.stored.schema.options
    engine = line.stored.schema.merge_engine
    if not engine.traits.keeps_last:
        reason = f"{MERGE_ENGINE.key}={engine.value}, which combines the rows of a key"
    elif SEQUENCE_FIELD.of(options):
        reason = f"{SEQUENCE_FIELD.key}, by which an older row may win over the merged one"
    elif IGNORE_DELETE.of(options):
        reason = f"{IGNORE_DELETE.key}=true, so that deletes of the branch would be left out"
    else:
        return
    name = f"table {table_name}" if line.branch == MAIN_BRANCH else f"branch {line.branch!r} of table {table_name}"
    raise UnsupportedError(
        f"{name} has {reason}: a merge by key would not give the merged rows; read the branch with "
        "to_batches(branch=...) and write its rows"
    )

"""Documents of lineage of fields in the folder of a table: written once, before the first commit that names them.

    <table>/lakelog/fields/<checksum>.json

A document is never changed, and branches share it with the table. It is put there before a batch writes its first
record or file: so a commit never names a document that is not there, and one that no commit names is left over from
a batch that did not commit.

A program of which only constants change, such as the day of a nightly statement, is one program: from its second form
on its document has `?` in their places. A document of that form is written beside the first one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from lakelog.common.bounded_cache import BoundedCache
from lakelog.common.clock import Stopwatch
from lakelog.common.errors import ConflictError, CorruptDataError, InvalidRequestError, NotFoundError
from lakelog.common.quoting import cause
from lakelog.filestore.metadata.origins import BatchLineage, check_checksum
from lakelog.filestore.metadata.tables import TableStore, check_same_table
from lakelog.filestore.options import LINEAGE_FIELDS
from lakelog.filestore.schema import TablePaths, TableSchema
from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_edges import EdgeKind, all_of, along
from lakelog.lineage.columns.field_operations import FieldLineage, OutputField
from lakelog.lineage.columns.plans.plan_fields import PlanFields
from lakelog.lineage.records.best_effort import known_or

_SUFFIX = ".json"
REPEAT_MILLIS = 3_600_000  # after this time a document is written again: one that is old and unnamed may be removed
_WRITTEN_MAX = 1_000
_TEXT = r"'(?:[^']|'')*'"
_STRING = re.compile(_TEXT)
_CONSTANT = re.compile(rf"{_TEXT}|(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
# Functions that take keys and passwords, by their names; a function of a user may be one.
TAKES_SECRETS = re.compile(r"\b\w*(?:crypt|hmac|passw|secret|token|sign)\w*\s*\(", re.IGNORECASE)
_PLACE = "?"


def without_secrets(lineage: FieldLineage) -> FieldLineage:
    """The lineage, whose descriptions have no string constants where a function may take keys or passwords."""
    return _described(lineage, lambda text: _STRING.sub(_PLACE, text) if TAKES_SECRETS.search(text) else text)


def without_constants(lineage: FieldLineage) -> FieldLineage:
    """The lineage, whose descriptions have `?` in place of each constant."""
    return _described(lineage, lambda text: _CONSTANT.sub(_PLACE, text))


def _described(lineage: FieldLineage, change: Callable[[str], str]) -> FieldLineage:
    return replace(lineage, fields=tuple(replace(one, description=change(one.description)) for one in lineage.fields))


def with_fields(lineage: BatchLineage, table: TableStore, found: PlanFields, **about: bool) -> BatchLineage:
    """The record of a batch that names the lineage of its fields, whose document is in the table from now on.

    `about` are members of the document. Without the option `lineage.fields` the record stays as it is; so it does, with
    a warning, where the document cannot be written: lineage fails no job. Raises ConflictError as `put_document`.
    """
    if not LINEAGE_FIELDS.of(table.schema.options) or not (found.lineage.fields or found.lineage.dataset):
        return lineage

    def named() -> BatchLineage:
        return replace(lineage, fields=(_put_program(table, document_of(found, table.schema, **about)),))

    return known_or(f"the lineage of fields of {table.name} is", named, lambda _: lineage, raises=(ConflictError,))


def document_of(found: PlanFields, schema: TableSchema, *, is_approximate: bool = False) -> FieldDocument:
    """The document of a write into a table with this schema.

    Columns of the rows that the table does not have decide which row wins, or are not written: they have the kind SORT
    for all fields.
    """
    columns = {one.name: one for one in schema.fields}
    spelled = {name.lower(): name for name in columns}
    written: list[OutputField] = []
    others = found.lineage.dataset
    for one in found.lineage.fields:
        name = one.name if one.name in columns else spelled.get(one.name.lower())
        if name is None:
            others = all_of((others, along(one.edges, EdgeKind.SORT)))
        else:
            written.append(one if name == one.name else replace(one, name=name))
    ids: Mapping[str, int] = {one.name: columns[one.name].id for one in written}
    lineage = without_secrets(FieldLineage(fields=tuple(written), dataset=others))
    return FieldDocument(
        lineage=lineage, ids=ids, sources=found.tables, reads=found.reads, is_approximate=is_approximate
    )


def _put_program(table: TableStore, document: FieldDocument) -> str:
    """Write the document of a program, or its form without constants if another form of it is there."""
    form = replace(document, lineage=without_constants(document.lineage))
    checksum, checksum_of_form = document.checksum, form.checksum
    if checksum != checksum_of_form and not _was_written(table, checksum):
        check_same_table(table, None)
        is_first = table.file_io.create_new(document_path(table, checksum_of_form), _readable(table, form))
        if not is_first and not table.file_io.exists(document_path(table, checksum)):
            return _put(table, form, checksum_of_form)
    return _put(table, document, checksum)


def put_document(table: TableStore, document: FieldDocument) -> str:
    """Write a document, unless this process has done so lately; returns its checksum.

    One that is there is written again: its age says whether it may be removed, see `lakelog.filestore.expire.orphans`.
    Raises ConflictError for a table that was dropped, or created again, since it was opened, and InvalidRequestError
    for a document that could not be read again.
    """
    return _put(table, document, document.checksum)


def _put(table: TableStore, document: FieldDocument, checksum: str) -> str:
    if not _was_written(table, checksum):
        check_same_table(table, None)  # nothing is left in the folder of a table that is gone
        table.file_io.write_bytes(document_path(table, checksum), _readable(table, document))
        _WRITTEN.put((table.path, table.uuid, checksum), Stopwatch())
    return checksum


def _was_written(table: TableStore, checksum: str) -> bool:
    """Whether this process has written a document lately; a table that was made again at the same place has none."""
    age = _WRITTEN.get((table.path, table.uuid, checksum))
    return bool(table.uuid) and age is not None and age.millis() < REPEAT_MILLIS


def _readable(table: TableStore, document: FieldDocument) -> bytes:
    """The bytes of a document. Raises InvalidRequestError if it could not be read again: it would be lost."""
    try:
        data = document.to_json().encode()
        FieldDocument.from_json(data, path="it")
    except (CorruptDataError, ValueError) as error:
        found = error.__cause__ or error
        raise InvalidRequestError(
            f"the lineage of fields that is declared for {table.name} could not be read again, so it is not recorded: "
            f"{cause(found)}; declare it in fewer and shorter names, of Unicode text"
        ) from error
    return data


_WRITTEN: BoundedCache[tuple[str, str, str], Stopwatch] = BoundedCache(_WRITTEN_MAX)
"""How long ago this process wrote a document, by the path and uuid of its table and its checksum."""


def find_document(table: TableStore, checksum: str) -> FieldDocument | None:
    """A document by its checksum; None if the table does not have it. Raises CorruptDataError, ValueError."""
    path = document_path(table, checksum)
    try:
        data = table.file_io.read_bytes(path)
    except NotFoundError:
        return None
    document = FieldDocument.from_json(data, path=path)
    found = document.checksum
    if found != checksum:
        raise CorruptDataError(
            f"{path} was changed: its content has checksum {found}. Delete it, and the next run of its job writes it "
            "again"
        )
    return document


def document_path(table: TableStore, checksum: str) -> str:
    """The file of a document. Raises ValueError for a text that is no checksum."""
    return f"{TablePaths(table.path).fields_dir}/{check_checksum(checksum)}{_SUFFIX}"

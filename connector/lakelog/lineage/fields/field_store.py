"""Documents of lineage of fields in the folder of a table: written once, before the first commit that names them.

    <table>/lakelog/fields/<checksum>.json

A document is never changed, and branches share it with the table. It is put there before a batch writes its first
record or file: so a commit never names a document that is not there, and one that no commit names is left over from
a batch that did not commit.
"""

from __future__ import annotations

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.schema import TablePaths
from lakelog.lineage.fields.field_documents import FieldDocument
from lakelog.lineage.records.record import check_checksum

_SUFFIX = ".json"


def put_document(table: TableStore, document: FieldDocument) -> str:
    """Write a document unless the table has it; returns its checksum. Raises what the file system raises."""
    checksum = document.checksum
    table.file_io.create_new(document_path(table, checksum), document.to_json().encode())
    return checksum


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

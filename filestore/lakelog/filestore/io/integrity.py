"""Digests of small files, which reveal damaged, swapped and lost files, and the errors for such files.

| file | its digest |
|---|---|
| manifest, manifest list, index manifest, index file | in its name: `<stem>-blake2b-<32 hex digits>`, of its bytes |
| snapshot, tag | property `lakelog.digest` of the snapshot, over the fields that every reader keeps |
| schema | key `lakelogDigest` beside the others, over everything else; property `lakelog.schema-digest` of snapshots |
| data and changelog files | checksums of their blocks in the manifest, see `lakelog.filestore.formats.blocks.checked` |

The names of manifests are opaque to readers, so a file that names a manifest also holds its digest. Files of other
engines have no digests: their sizes and counts are compared with the metadata that names them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.common.quoting import escaped
from lakelog.filestore.io.fileio import FileIO

_DIGEST_BYTES = 16
_MARK = "-blake2b-"
_NAMED = re.compile(rf"{_MARK}([0-9a-f]{{{2 * _DIGEST_BYTES}}})$")
WAY_OUT = "restore the file from a copy, or read a snapshot or tag that does not need it"


def digest_of(data: bytes) -> str:
    """The digest of bytes: 32 hex digits of blake2b."""
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def name_with_digest(stem: str, data: bytes) -> str:
    """The name of a new file that holds `data`, with the digest by which readers check the bytes."""
    return f"{stem}{_MARK}{digest_of(data)}"


def has_digest(path: str) -> bool:
    """Whether a file's name holds its digest."""
    return _NAMED.search(path) is not None


def read_checked(file_io: FileIO, path: str, *, size_bytes: int | None = None) -> bytes:
    """A whole file, compared with the digest in its name, if any, and with the size in its metadata, if any.

    Raises CorruptDataError, and NotFoundError for a missing file.
    """
    try:
        data = file_io.read_bytes(path)
    except NotFoundError as error:
        raise NotFoundError(
            f"{path} is missing: its snapshot has expired meanwhile, or the file was lost; plan the read again, and "
            f"when it is still missing {WAY_OUT}"
        ) from error
    if size_bytes is not None and len(data) != size_bytes:
        raise damaged(path, f"it has {len(data)} bytes, expected {size_bytes}")
    named = _NAMED.search(path)
    if named is not None and digest_of(data) != named[1]:
        raise damaged(path, f"its bytes have the digest {digest_of(data)}, its name holds {named[1]}")
    return data


def damaged(path: str, what: str) -> CorruptDataError:
    """The error for a file whose bytes are not those that were written; `what` says what was found."""
    return CorruptDataError(f"{escaped(path)} is damaged: {what}; {WAY_OUT}")


def text_of(data: bytes, path: str) -> str:
    """The text of the file at `path`. Raises CorruptDataError for bytes that are not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise damaged(path, f"it is not UTF-8 at byte {error.start}") from error


def json_digest(fields: Mapping[str, object]) -> str:
    """The digest of JSON values, whatever their order and spaces."""
    return digest_of(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode())

"""Digests of small files: what a damaged, swapped or lost file is told by, and what its error says.

| file | its digest |
|---|---|
| manifest, manifest list, index manifest, index file | in its name: `<stem>-blake2b-<32 hex digits>`, of its bytes |
| snapshot, tag | property `lakelog.digest` of the snapshot, over the fields that every reader keeps |
| schema | key `lakelogDigest` beside the others, over everything else; property `lakelog.schema-digest` of snapshots |
| data and changelog files | checksums of their blocks in the manifest, see `lakelog.filestore.formats.checked` |

The names of manifests are opaque to readers, and a file that names another so vouches for its bytes. Files of other
engines have none of these: their sizes and counts are compared with what names them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.filestore.io.fileio import FileIO

_DIGEST_BYTES = 16
_MARK = "-blake2b-"
_NAMED = re.compile(rf"{_MARK}([0-9a-f]{{{2 * _DIGEST_BYTES}}})$")
WAY_OUT = "restore the file from a copy, or read a snapshot or tag that does not need it"


def digest_of(data: bytes) -> str:
    """The digest of bytes: 32 hex digits of blake2b."""
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def name_with_digest(stem: str, data: bytes) -> str:
    """The name of a new file that holds `data`: readers can tell from it whether the bytes are still these."""
    return f"{stem}{_MARK}{digest_of(data)}"


def has_digest(path: str) -> bool:
    """Whether a file's name tells its digest."""
    return _NAMED.search(path) is not None


def read_checked(file_io: FileIO, path: str, *, size_bytes: int | None = None) -> bytes:
    """A whole file, compared with the digest in its name and the size that is known elsewhere, where there are any.

    Raises CorruptDataError, and NotFoundError for a file that is gone.
    """
    try:
        data = file_io.read_bytes(path)
    except NotFoundError as error:
        raise NotFoundError(
            f"{path} is gone: its snapshot has expired meanwhile, or the file was lost; plan the read again, and when "
            f"it is still missing {WAY_OUT}"
        ) from error
    if size_bytes is not None and len(data) != size_bytes:
        raise damaged(path, f"it has {len(data)} bytes, expected {size_bytes}")
    named = _NAMED.search(path)
    if named is not None and digest_of(data) != named[1]:
        raise damaged(path, f"its bytes have the digest {digest_of(data)}, its name says {named[1]}")
    return data


def damaged(path: str, what: str) -> CorruptDataError:
    """The error for a file that is not what was written: what was found, and the way out."""
    return CorruptDataError(f"{path} is damaged: {what}; {WAY_OUT}")


def json_digest(fields: Mapping[str, object]) -> str:
    """The digest of JSON values, whatever their order and spaces."""
    return digest_of(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode())

"""The paths of each kind of file, and new names for files.

    <root>/schema/schema-N                              manifest/manifest-<uuid>-<n>, manifest-list-<uuid>-<n>
    <root>/snapshot/snapshot-N, LATEST, EARLIEST        manifest/index-manifest-<uuid>-<n>, index/index-<uuid>-<n>
    <root>/changelog/changelog-N, LATEST, EARLIEST      consumer/consumer-<id>, statistics/stat-<uuid>-<n>
                                                        manifest/header-<uuid>-<n> (lakelog's own)
    <root>/tag/tag-<name>, tag/tag-success-file/<name>_SUCCESS
    <root>/branch/branch-<name>/..., lakelog/state (see `lakelog.filestore.metadata.tables.state_keeping`)
    <root>/lakelog/compared (see `lakelog.filestore.expire.compared_line`)
    <root>/lakelog/fields/<checksum>.json (of all branches, see `lakelog.lineage.columns.field_documents`)
    <root>/branch/.lakelog-<name>, branch/branch-<name>/lakelog/fork (see `lakelog.filestore.refs`)
    <root>/[<key>=<value>/...]bucket-<B>/data-<uuid>-<n>.<format>

The names of lakelog's files in manifest/ and index/ end with a digest, see `lakelog.filestore.io.integrity`.
Source: Paimon spec, "File layouts".
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from lakelog.common.arrow import time_unit
from lakelog.common.file_names import check_found_name, check_user_name
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.encoding.binary_row import StoredValue, deserialize_row, to_scalar
from lakelog.filestore.encoding.java_strings import float_text, is_blank, time_text
from lakelog.filestore.io.integrity import name_with_digest
from lakelog.filestore.options.layout import PARTITION_DEFAULT_NAME, PARTITION_LEGACY_NAME
from lakelog.filestore.schema.schema import TableSchema

SNAPSHOT_PREFIX = "snapshot-"
SCHEMA_PREFIX = "schema-"
TAG_PREFIX = "tag-"
SUCCESS_FOLDER = "tag-success-file"  # in the folder of tags, but not tags
CHANGELOG_PREFIX = "changelog-"
CONSUMER_PREFIX = "consumer-"
BRANCH_PREFIX = "branch-"
BRANCH_INFIX = "$branch_"  # between the names of a table and of its branch
BRANCH_STEP_PREFIX = ".lakelog-"  # of a branch that is being created, renamed or deleted
MAIN_BRANCH = "main"
INDEX_BESIDE_DATA = "index-file-in-data-file-dir"  # an option of Paimon: index files are in the folders of buckets
_ESCAPED = {chr(code) for code in (*range(0x20), 0x7F)} | set("\"#%'*/:=?\\{}[]^")


def is_tag_file(name: str) -> bool:
    """Whether a name in the folder of tags is that of a tag."""
    return name.startswith(TAG_PREFIX) and name != SUCCESS_FOLDER


@dataclass(frozen=True, slots=True)
class TablePaths:
    """The paths of one table; `root` is the table's folder.

    A branch has its own schemas, snapshots, changelogs, tags and consumers; it shares manifests, indexes and data
    files with the table.
    """

    root: str
    branch: str = MAIN_BRANCH

    def __post_init__(self) -> None:
        """Raise InvalidRequestError for a branch whose name, of another engine, leads into another folder."""
        check_found_name(self.branch, "branch")

    @property
    def own_root(self) -> str:
        """The folder of a branch's own files: the table's for the main branch."""
        return self.root if self.branch == MAIN_BRANCH else f"{self.root}/branch/{BRANCH_PREFIX}{self.branch}"

    @property
    def branches_dir(self) -> str:
        """The folder of all branches except the main one."""
        return f"{self.root}/branch"

    @property
    def fork_file(self) -> str:
        """The file with the point where a branch began."""
        return f"{self.own_root}/lakelog/fork"

    @property
    def branch_step(self) -> str:
        """The file that exists while the branch is being created, renamed or deleted."""
        return f"{self.branches_dir}/{BRANCH_STEP_PREFIX}{self.branch}"

    @property
    def fields_dir(self) -> str:
        """The folder of the lineage of fields, which branches share with the table."""
        return f"{self.root}/lakelog/fields"

    @property
    def schema_dir(self) -> str:
        """The folder of schema files."""
        return f"{self.own_root}/schema"

    @property
    def snapshot_dir(self) -> str:
        """The folder of snapshot files and hints."""
        return f"{self.own_root}/snapshot"

    @property
    def tag_dir(self) -> str:
        """The folder of tag files."""
        return f"{self.own_root}/tag"

    @property
    def changelog_dir(self) -> str:
        """The folder of changelogs that outlive their snapshots, and of their hints."""
        return f"{self.own_root}/changelog"

    @property
    def consumer_dir(self) -> str:
        """The folder of consumer files."""
        return f"{self.own_root}/consumer"

    @property
    def latest_hint(self) -> str:
        """The hint that holds the newest snapshot's id."""
        return f"{self.own_root}/snapshot/LATEST"

    @property
    def earliest_hint(self) -> str:
        """The hint that holds the oldest snapshot's id."""
        return f"{self.own_root}/snapshot/EARLIEST"

    def schema(self, schema_id: int) -> str:
        """The file of one schema."""
        return f"{self.own_root}/schema/{SCHEMA_PREFIX}{schema_id}"

    def snapshot(self, snapshot_id: int) -> str:
        """The file of one snapshot."""
        return f"{self.own_root}/snapshot/{SNAPSHOT_PREFIX}{snapshot_id}"

    def changelog(self, snapshot_id: int) -> str:
        """The file of a changelog that outlives its snapshot."""
        return f"{self.changelog_dir}/{CHANGELOG_PREFIX}{snapshot_id}"

    def manifest(self, name: str) -> str:
        """A manifest, manifest list or index manifest."""
        return f"{self.root}/manifest/{name}"

    @property
    def index_dir(self) -> str:
        """The folder of index files."""
        return f"{self.root}/index"

    def index(self, name: str) -> str:
        """A table index file."""
        return f"{self.index_dir}/{name}"

    def statistics(self, name: str) -> str:
        """A statistics file."""
        return f"{self.root}/statistics/{name}"

    def tag_success(self, name: str) -> str:
        """The file that says that a tag exists. Raises InvalidRequestError for a name that cannot be a file's."""
        check_found_name(name, "tag")
        return f"{self.tag_dir}/{SUCCESS_FOLDER}/{name}_SUCCESS"

    def tag(self, name: str) -> str:
        """The file of one tag. Raises InvalidRequestError for a name that cannot be a file's."""
        check_found_name(name, "tag")
        return f"{self.own_root}/tag/{TAG_PREFIX}{name}"

    def consumer(self, consumer_id: str) -> str:
        """The file of one consumer. Raises InvalidRequestError for an id that cannot be in a file's name."""
        check_user_name(consumer_id, "consumer id")
        return f"{self.consumer_dir}/{CONSUMER_PREFIX}{consumer_id}"

    @property
    def state_mark(self) -> str:
        """The file whose presence means that lakelog has kept state in the snapshots."""
        return f"{self.own_root}/lakelog/state"

    def bucket_dir(self, partition_path: str, bucket: int) -> str:
        """The folder of a bucket; `partition_path` comes from the function of that name."""
        name = "bucket-postpone" if bucket == -2 else f"bucket-{bucket}"
        return f"{self.root}/{partition_path}{name}"

    def data_file(self, partition_path: str, bucket: int, name: str) -> str:
        """A data or changelog file in its bucket."""
        return f"{self.bucket_dir(partition_path, bucket)}/{name}"


class FileNames:
    """New file names of one writer: its uuid and a counter. Safe to share between threads."""

    def __init__(self, writer_uuid: str | None = None) -> None:
        self.uuid = writer_uuid or str(uuid.uuid4())
        self._counter = itertools.count()

    def manifest(self, data: bytes) -> str:
        """The next name of a manifest, which holds `data`."""
        return self._named("manifest", data)

    def manifest_list(self, data: bytes) -> str:
        """The next name of a manifest list."""
        return self._named("manifest-list", data)

    def index_manifest(self, data: bytes) -> str:
        """The next name of an index manifest."""
        return self._named("index-manifest", data)

    def index_file(self, data: bytes) -> str:
        """The next name of a table index file."""
        return self._named("index", data)

    def header(self, data: bytes) -> str:
        """The next name of a file with the header of a transaction in a log."""
        return self._named("header", data)

    def _named(self, kind: str, data: bytes) -> str:
        return name_with_digest(f"{kind}-{self.uuid}-{next(self._counter)}", data)

    def data_file(self, extension: str, *, prefix: str = "data-") -> str:
        """The next name of a data or changelog file; `extension` is the file format."""
        return f"{prefix}{self.uuid}-{next(self._counter)}.{extension}"


def partition_path(schema: TableSchema, partition: bytes | Sequence[StoredValue]) -> str:
    """The folders of a partition, each with its `/`: empty for an unpartitioned table.

    `partition` is the serialized BinaryRow of manifests, or its stored values.
    """
    fields = schema.partition_fields
    if not fields:
        return ""
    values = deserialize_row([field.type for field in fields], partition) if isinstance(partition, bytes) else partition
    default_name = PARTITION_DEFAULT_NAME.of(schema.options)
    is_legacy = PARTITION_LEGACY_NAME.of(schema.options)
    return "".join(
        f"{_escape(field.name)}={_escape(_path_value(field, value, is_legacy) or default_name)}/"
        for field, value in zip(fields, values, strict=True)
    )


def _escape(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def _path_value(field: DataField, value: StoredValue, is_legacy: bool) -> str:
    """The string of a partition value in a path; empty for null and blank strings, which have the default name."""
    if value is None or (isinstance(value, str) and is_blank(value)):
        return ""
    return value_text(field.type, value, is_legacy=is_legacy)


def value_text(kind: DataType, value: StoredValue, *, is_legacy: bool) -> str:
    """The string of a stored value that is not null, in the legacy form of Java or the form of SQL.

    In the legacy form dates are days, times are milliseconds. Bytes are hex digits in both.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if kind.root is TypeRoot.DATE:
        return str(value) if is_legacy else str(to_scalar(kind, value))
    if kind.root is TypeRoot.TIME:
        assert isinstance(value, int)
        millis = value * 1_000 // _units_per_second(kind)
        return str(millis) if is_legacy else time_text(millis, kind.precision or 0)
    if kind.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        assert isinstance(value, int)
        return _timestamp_text(kind, value, is_legacy)
    return float_text(kind, value) if isinstance(value, float) else str(value)


def _timestamp_text(kind: DataType, value: int, is_legacy: bool) -> str:
    """The string of Java's LocalDateTime in the legacy form, else that of the SQL cast to STRING."""
    seconds, fraction = divmod(value, _units_per_second(kind))
    whole = str(to_scalar(DataType(root=TypeRoot.TIMESTAMP, precision=0), seconds))  # YYYY-MM-DD HH:MM:SS
    if not is_legacy:
        return whole + _fraction_text(fraction, kind, digits=kind.precision or 0)
    text = whole.replace(" ", "T")
    if fraction:
        nanos = f"{fraction * (1_000_000_000 // _units_per_second(kind)):09}"
        return f"{text}.{nanos[:3] if nanos.endswith('000000') else nanos[:6] if nanos.endswith('000') else nanos}"
    return text.removesuffix(":00")


def _fraction_text(fraction: int, kind: DataType, *, digits: int) -> str:
    nanos = f"{fraction * (1_000_000_000 // _units_per_second(kind)):09}"
    return f".{nanos[:digits]}" if digits else ""


def _units_per_second(kind: DataType) -> int:
    if kind.root is TypeRoot.TIME and (kind.precision or 0) <= 3:
        return 1_000
    return {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[time_unit(kind.precision or 0)]

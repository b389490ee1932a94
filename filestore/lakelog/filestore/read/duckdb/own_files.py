"""Data files that DuckDB reads itself: large Parquet files of this machine whose rows are the table's rows.

DuckDB decodes Parquet on all cores, in a fraction of the time that rows take to reach it through Arrow, and keeps the
dictionaries of strings. It asks for bytes through a file system of fsspec; each block that holds them is compared with
its checksum.

    lakelog://<read>/<number of the file>

names a file as long as the `OwnFiles` of the read exist: a relation holds them by what it reads through Arrow.

Plans of DuckDB are good where it reads files alone: a union with rows from Arrow, whose number it does not know, and a
first file without rows, from whose footer it takes its statistics, made queries of TPC-H two times slower.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any  # Any: duckdb and fsspec have no types here
from uuid import uuid4
from weakref import WeakValueDictionary

import duckdb

from lakelog.common.quoting import quoted
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.data.data_reader import missing_named, stored_columns, stored_file
from lakelog.filestore.data.row_ids import has_row_groups
from lakelog.filestore.formats.blocks.checked import CheckedInput
from lakelog.filestore.formats.blocks.shared_input import SharedFile, VerifiedBlocks
from lakelog.filestore.formats.parquet.parquet_layout import has_nanos
from lakelog.filestore.io.path_forms import is_local
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import KIND_FIELD, SEQUENCE_FIELD, TableStore
from lakelog.filestore.predicate import Predicate
from lakelog.filestore.read.duckdb.holding import holding_relation
from lakelog.filestore.read.duckdb.oldest_runs import base_files, has_bases, young_files
from lakelog.filestore.read.duckdb.served_files import PROTOCOL, SERVED
from lakelog.filestore.read.duckdb.short_footers import ShortFooter, ShortFooterFile
from lakelog.filestore.read.planned_read import PlannedRead
from lakelog.filestore.read.scan import DataSplit
from lakelog.filestore.schema.evolution import FieldMapping
from lakelog.filestore.schema.row_places import has_places
from lakelog.filestore.schema.schema_rules import KEY_PREFIX

# A query opens all files that DuckDB reads itself, whatever its filter is, and takes milliseconds for the footer of a
# million rows. Through Arrow, files are pruned by the manifests, and footers are cached.
_FILES_MAX = 64
_ROWS_MAX = 64 << 20  # of all files
_ROWS_MIN = 65_536  # of a file: a smaller one takes longer to open than its rows take through Arrow
_PLANNED_FILES_MAX = 1_000  # live files; a plan of more would make `to_duckdb` slow


@dataclass(frozen=True, slots=True)
class Scans:
    """Queries of files that DuckDB reads: of those with all their rows, and of those below younger files."""

    alone: str | None
    based: str | None


class OwnFiles:
    """The files of a read that DuckDB reads itself, and the read of the others.

    All have the same columns, so that DuckDB knows from the first file what is in each.
    """

    def __init__(
        self, read: PlannedRead, files: Sequence[tuple[BucketId, DataFileMeta]], based: Sequence[DataSplit] = ()
    ) -> None:
        """The splits in `based` have younger files, which replace rows of the files: see `oldest_runs`."""
        self._read = read
        self._based = {(split.bucket_id, file.file_name) for split in based for file in split.files}
        self._young = [young for split in based for young in young_files(split)]
        self.store = files
        self._keys = {(bucket, file.file_name) for bucket, file in files}
        self._others = self._without(read.splits)
        self._open: WeakValueDictionary[int, ShortFooterFile] = WeakValueDictionary()
        names = [field.name for field in read.fields]
        self._footers = [
            ShortFooter(read.table.data_path(bucket, file), file.checksums or b"", names) for bucket, file in files
        ]
        self._name = uuid4().hex
        SERVED[self._name] = self

    def relation(self, connection: Any, others: Any) -> Any:
        """The rows of the read as a relation of DuckDB; `others` gives those that are not in the files to Arrow.

        Raises what DuckDB raises.
        """
        texts = self.scans(connection)
        if self.are_all and texts.alone is not None:
            return holding_relation(connection, texts.alone, others)
        parts = [duckdb.from_arrow(others, connection=connection)]
        if texts.alone is not None:
            parts.append(connection.sql(texts.alone))
        if texts.based is not None:
            from lakelog.filestore.read.arrow_dataset import LakelogDataset

            young = duckdb.from_arrow(LakelogDataset(self.key_fields, self.young_keys), connection=connection)
            base = connection.sql(texts.based).set_alias("base")
            parts.append(base.join(young.set_alias("young"), self.is_replaced, how="anti"))
        return reduce(lambda one, other: one.union(other), parts)

    def scans(self, connection: Any) -> Scans:
        """Queries of the files. Raises what DuckDB raises."""
        from lakelog.filestore.read.duckdb.file_system import register

        register(connection)
        parts: dict[bool, list[int]] = {False: [], True: []}
        for number, (bucket, file) in enumerate(self.store):
            parts[(bucket, file.file_name) in self._based].append(number)
        alone, based = (self._scan(found) if found else None for found in parts.values())
        return Scans(alone, based)

    @property
    def key_fields(self) -> list[DataField]:
        """The columns of the primary key."""
        schema = self._read.table.schema
        return [schema.field(name) for name in schema.primary_keys]

    @property
    def is_replaced(self) -> str:
        """The condition that a row of `base` has the key of a row of `young`."""
        names = [quoted(field.name) for field in self.key_fields]
        return " AND ".join(f"base.{name} = young.{name}" for name in names)

    def _scan(self, numbers: Sequence[int]) -> str:
        names = ", ".join(quoted(field.name) for field in self._read.fields)
        urls = ", ".join(f"'{PROTOCOL}://{self._name}/{number}'" for number in numbers)
        # Bounds of columns leave NaN out.
        return f"SELECT {names} FROM read_parquet([{urls}], can_have_nan = true, hive_partitioning = false)"

    def young_keys(self, names: Sequence[str], also: Predicate | None) -> PlannedRead:
        """The keys of younger files, more than once those that several of them have."""
        table = self._read.table
        return replace(self._read, fields=table.schema.select(names), where=None, skip=also, splits=self._young)

    @property
    def has_young_deletes(self) -> bool:
        """Whether a younger file may delete rows of the files."""
        return any(file.delete_row_count != 0 for split in self._young for file in split.files)

    @property
    def are_all(self) -> bool:
        """Whether the read has no other files."""
        return not self._others

    def others(self, read: PlannedRead) -> PlannedRead:
        """The part of a read of the same snapshot that DuckDB does not read itself."""
        return replace(read, splits=self._without(read.splits))

    def opened(self, number: int) -> SharedFile:
        """Open a file by its number. Raises NotFoundError, CorruptDataError.

        DuckDB opens a file twice for a query: both handles share one open file.
        """
        file = self._open.get(number)
        if file is None:
            blocks = VerifiedBlocks(self._source(number))
            file = self._open[number] = ShortFooterFile(blocks, self._footers[number])
        return SharedFile(file)

    def _source(self, number: int) -> CheckedInput:
        bucket, file = self.store[number]
        stored = stored_file(self._read.table, bucket, file)
        with missing_named(stored.path):
            source = stored.open_input()
        if not isinstance(source, CheckedInput):
            raise AssertionError(f"{stored.path} is read by DuckDB and has no checksums")  # noqa: TRY004  # our own mistake
        return source

    def size(self, number: int) -> int:
        """The bytes of a file."""
        return self.store[number][1].file_size_bytes

    def _without(self, splits: Iterable[DataSplit]) -> tuple[DataSplit, ...]:
        """The splits without the files. No merge needs them: other files have none of the keys that they give."""
        left = (
            replace(split, files=tuple(file for file in split.files if not self._has(split, file))) for split in splits
        )
        return tuple(split for split in left if split.files)

    def _has(self, split: DataSplit, file: DataFileMeta) -> bool:
        return split.branch is None and (split.bucket_id, file.file_name) in self._keys


def may_have_own_files(table: TableStore, snapshot: Snapshot, fields: Sequence[DataField]) -> bool:
    """Whether DuckDB may read files of a snapshot itself, judged only by the table, the columns and their number."""
    schema = table.schema
    return (
        not schema.is_change_log
        and not schema.has_blobs
        and not has_row_groups(schema)
        and not has_places(schema)
        and is_local(table.path)
        and all(is_alike(field.type) for field in fields)
        and table.live_files.count(snapshot) <= _PLANNED_FILES_MAX
    )


def own_files(read: PlannedRead) -> OwnFiles | None:
    """The files of a read that DuckDB may read itself; None if there are none, or too many.

    They need no merge, or are those of `base_files`, and hold the columns of the read unchanged. See
    `may_have_own_files`.
    """
    layouts = _Layouts(read.table, read.fields)
    found: defaultdict[Sequence[DataField], list[tuple[BucketId, DataFileMeta]]] = defaultdict(list)
    based: list[DataSplit] = []
    may_be_based = has_bases(read.table, read.fields)
    for split in read.splits:
        files: Sequence[DataFileMeta] = split.files if split.raw_convertible and split.branch is None else ()
        if may_be_based and (bases := base_files(split)):
            based.append(split)
            files = bases
        for file in files:
            layout = None if file.file_name in split.deletions else layouts.of(file)
            if layout is not None:
                found[layout].append((split.bucket_id, file))
    chosen = max(found.values(), key=lambda files: sum(file.row_count for _, file in files), default=[])
    is_few = len(chosen) <= _FILES_MAX and sum(file.row_count for _, file in chosen) <= _ROWS_MAX
    return OwnFiles(read, chosen, based) if chosen and is_few else None


class _Layouts:
    """The columns of data files, by their schemas."""

    def __init__(self, table: TableStore, fields: Sequence[DataField]) -> None:
        self._table = table
        self._fields = fields
        self._known: dict[int, tuple[DataField, ...] | None] = {}

    def of(self, file: DataFileMeta) -> tuple[DataField, ...] | None:
        """The columns of a file that DuckDB may read itself; None for others."""
        is_large = file.row_count >= _ROWS_MIN and file.checksums is not None
        if not is_large or not file.file_name.endswith(".parquet") or file.write_cols is not None:
            return None
        if file.schema_id not in self._known:
            stored = tuple(stored_columns(self._table, file))
            keys = [f"{KEY_PREFIX}{name}" for name in self._table.schema.trimmed_primary_keys]
            names = [*keys, SEQUENCE_FIELD.name, KIND_FIELD.name, *(field.name for field in stored)]
            # INT96 holds timestamps of any precision; names that differ only in case are the same to DuckDB.
            is_read = not has_nanos(stored) and len({name.casefold() for name in names}) == len(names)
            is_read = is_read and FieldMapping.of(self._fields, stored).is_plain
            self._known[file.schema_id] = stored if is_read else None
        return self._known[file.schema_id]


_MILLIS_DIGITS = 3


def is_alike(kind: DataType) -> bool:
    """Whether DuckDB has the same type for a column from Parquet files as for one from Arrow."""
    if kind.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return (kind.precision or 0) > _MILLIS_DIGITS or kind.root is TypeRoot.TIMESTAMP_LTZ
    inner = [part for part in (kind.element, kind.key, kind.value) if part is not None]
    if len({part.name.casefold() for part in kind.fields}) < len(kind.fields):  # it would rename some of them
        return False
    return kind.root is not TypeRoot.TIME and all(map(is_alike, [*inner, *(part.type for part in kind.fields)]))

"""The parts of a table: files, partitions, and the system tables of Paimon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from lakelog.catalog.names.keywords import naming_keywords
from lakelog.catalog.verbs.group import AnyTable, VerbGroup
from lakelog.warehouse.verb import verb

if TYPE_CHECKING:
    from lakelog.catalog.tables.describing import PartitionDescription
    from lakelog.filestore.metadata.tables import TableFile
    from lakelog.filestore.refs import SnapshotChoice
    from lakelog.filestore.system import SystemTable


@naming_keywords
class TableSystem(VerbGroup[AnyTable]):
    """The parts of a table: `table.system`. `table.system["files"]` is the system table `files` as it is now."""

    place = "table"
    panel = "Look at tables"

    @verb(
        answer={
            "partition": lambda file: dict(file.partition),
            "bucket": "bucket",
            "level": "level",
            "row_count": "row_count",
            "size_bytes": "size_bytes",
            "min_key": "min_key",
            "max_key": "max_key",
            "schema_id": "schema_id",
            "path": "path",
            "file": lambda file: file.path.rpartition("/")[2],
        },
        brief=("partition", "bucket", "level", "row_count", "size_bytes", "min_key", "max_key", "file"),
    )
    def files(self, **which: Unpack[SnapshotChoice]) -> list[TableFile]:
        """The data files with their rows, bytes and keys. Those of the newest snapshot, or of another.

        >>> sizes = [file.size_bytes for file in table.system.files(tag="friday")]
        """
        from lakelog.filestore.metadata.tables import files_of_table

        return files_of_table(*self._table.store.travelled(**which))

    @verb(
        answer={
            "partition": lambda found: dict(found.values),
            "last_modified": "last_modified_millis",
            "compacted": "is_compacted",
            "change_tracking": "change_tracking",
            "file_count": "file_count",
            "rows_in_files": "rows_in_files",
            "size_bytes": "size_bytes",
            "path": lambda found: list(found.paths),
        },
    )
    def partitions(self, *, branch: str | None = None) -> list[PartitionDescription]:
        """The partitions with their files and last change. Those of the newest snapshot, sorted.

        With `branch`, those of the branch. A table without partition columns is one partition.
        Source: FLIP-188, "DESCRIBE".

        >>> print(table.system.partitions())
        """
        from lakelog.catalog.tables.describing import describe_partitions

        return describe_partitions(self._table if branch is None else self._table.branch(branch))

    def table(
        self, name: str, *, after: int | None = None, up_to: int | None = None, **which: Unpack[SnapshotChoice]
    ) -> SystemTable:
        """A system table, with Paimon's columns; `to_arrow` and `to_polars` read it.

        `name` is one of `snapshots`, `schemas`, `options`, `files`, `manifests`, `tags`, `branches`, `partitions`,
        `buckets`, `consumers`, `audit_log`, `binlog`, `ro`, `statistics`, `aggregation_fields`, `file_key_ranges`,
        `row_tracking` and `table_indexes`. Those of files and rows show the newest snapshot, or the one that the
        arguments name; with `branch` all show a branch. With `after` and `up_to`, `audit_log` and `binlog` show the
        changes after one snapshot up to and including another, including deletes. Timestamps are in UTC.
        Raises NotFoundError for an unknown name, InvalidRequestError for an argument that it does not take.

        >>> table.system["files"].to_polars().collect()
        """
        from lakelog.filestore.system import open_system_table

        return open_system_table(self._table.store, name, after=after, up_to=up_to, **which)

    def __getitem__(self, name: str) -> SystemTable:
        return self.table(name)

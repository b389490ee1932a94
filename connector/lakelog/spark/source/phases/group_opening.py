"""Opening the group of streams that the options of one stream name."""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.catalog import Catalog, Table
from lakelog.filestore.io import Location, store_options
from lakelog.filestore.metadata.tables import TableStore, identity_of
from lakelog.lineage.answers.advancing import ConsistentAdvance
from lakelog.spark.options import WAREHOUSE
from lakelog.spark.source.phases.stream_group import StreamGroup
from lakelog.spark.source.reading.group_folder import GroupFolder
from lakelog.streams.options.align_options import Alignment, GroupOptions


def open_group(group: GroupOptions, alignment: Alignment, table: Table, given: Mapping[str, str]) -> StreamGroup:
    """The group of a stream of a table. Opens no other table, and does no I/O in the folder."""
    options = {key.lower(): value for key, value in given.items()}
    stores = store_options(options)
    catalog = Catalog(WAREHOUSE.of(options) or table.warehouse, options=stores)
    folder = Location.of(group.folder, stores)

    def open_tables() -> Mapping[str, TableStore]:
        opened = [catalog.load_table(name).store for name in group.tables]
        return {identity_of(one): one for one in opened}

    return StreamGroup(
        group,
        GroupFolder(folder.path, folder.file_io, group=group.name),
        table=identity_of(table.store),
        open_tables=open_tables,
        next_positions=ConsistentAdvance(catalog),
        steps=alignment.versions_max,
        timeout_millis=alignment.timeout_millis,
    )

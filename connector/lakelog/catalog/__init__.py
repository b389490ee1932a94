"""Databases and tables: create, list, open and drop them, without Spark. A table has files and may have a log."""

import lakelog.common.allocation  # noqa: F401  # before pyarrow
from lakelog.catalog.catalog import Catalog, open_table
from lakelog.catalog.table import Table
from lakelog.protocol.table_log import TableLog

__all__ = ["Catalog", "Table", "TableLog", "open_table"]

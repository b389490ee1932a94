"""What other parts may import of filestore.system."""

from lakelog.filestore.system.file_totals import PartitionTotals as PartitionTotals
from lakelog.filestore.system.file_totals import partition_totals as partition_totals
from lakelog.filestore.system.file_totals import table_totals as table_totals
from lakelog.filestore.system.history import History as History
from lakelog.filestore.system.history import HistoryEntry as HistoryEntry
from lakelog.filestore.system.history import HistoryLine as HistoryLine
from lakelog.filestore.system.history import history_of as history_of
from lakelog.filestore.system.range_changes import ChangeRange as ChangeRange
from lakelog.filestore.system.row_tables import ROW_KIND as ROW_KIND
from lakelog.filestore.system.row_tables import packed as packed
from lakelog.filestore.system.row_tables import row_table_fields as row_table_fields
from lakelog.filestore.system.system_columns import SYSTEM_NAMES as SYSTEM_NAMES
from lakelog.filestore.system.system_columns import WAREHOUSE_COLUMNS as WAREHOUSE_COLUMNS
from lakelog.filestore.system.system_opening import OVER_RANGE as OVER_RANGE
from lakelog.filestore.system.system_opening import RowsOf as RowsOf
from lakelog.filestore.system.system_opening import SystemTable as SystemTable
from lakelog.filestore.system.system_opening import arrow_rows as arrow_rows
from lakelog.filestore.system.system_opening import open_system_table as open_system_table
from lakelog.filestore.system.table_diff import DiffState as DiffState
from lakelog.filestore.system.table_diff import TableDiff as TableDiff
from lakelog.filestore.system.table_diff import diff_states as diff_states

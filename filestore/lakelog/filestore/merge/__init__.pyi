"""What other parts may import of filestore.merge."""

from lakelog.filestore.merge.counting import changed_rows as changed_rows
from lakelog.filestore.merge.counting import counted_rows as counted_rows
from lakelog.filestore.merge.deduplicate import Slice as Slice
from lakelog.filestore.merge.deduplicate import are_absent as are_absent
from lakelog.filestore.merge.deduplicate import are_adds as are_adds
from lakelog.filestore.merge.deduplicate import newest_rows as newest_rows
from lakelog.filestore.merge.deduplicate import without_deletes as without_deletes
from lakelog.filestore.merge.engines import RowMerge as RowMerge
from lakelog.filestore.merge.engines import row_merge as row_merge
from lakelog.filestore.merge.order import is_last_of_key as is_last_of_key
from lakelog.filestore.merge.order import key_frame as key_frame
from lakelog.filestore.merge.order import to_series as to_series

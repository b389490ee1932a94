"""What other parts may import of filestore.read."""

from lakelog.filestore.options.reading import ChangeSource as ChangeSource
from lakelog.filestore.read.changes import change_files as change_files
from lakelog.filestore.read.changes import changed_entries as changed_entries
from lakelog.filestore.read.changes import check_followable as check_followable
from lakelog.filestore.read.changes import find_changes as find_changes
from lakelog.filestore.read.changes import first_changes as first_changes
from lakelog.filestore.read.changes import not_continued as not_continued
from lakelog.filestore.read.changes import read_change_file as read_change_file
from lakelog.filestore.read.changes import snapshot_of_changes as snapshot_of_changes
from lakelog.filestore.read.duckdb.kept_rows import KeptRows as KeptRows
from lakelog.filestore.read.duckdb.relation import snapshot_relation as snapshot_relation
from lakelog.filestore.read.fallback import plan_read as plan_read
from lakelog.filestore.read.json_rows import to_json_lines as to_json_lines
from lakelog.filestore.read.known_ranges import known_range as known_range
from lakelog.filestore.read.pinning import pinned as pinned
from lakelog.filestore.read.planned_read import PlannedRead as PlannedRead
from lakelog.filestore.read.scan import DataSplit as DataSplit
from lakelog.filestore.read.scan import first_splits as first_splits
from lakelog.filestore.read.scan import plan_splits as plan_splits
from lakelog.filestore.read.split_rows import read_splits as read_splits
from lakelog.filestore.read.split_rows import read_splits_as_changes as read_splits_as_changes
from lakelog.filestore.read.waiting_rows import Visible as Visible
from lakelog.filestore.read.waiting_rows import WaitingRows as WaitingRows
from lakelog.filestore.read.waiting_rows import Waits as Waits
from lakelog.filestore.read.waiting_rows import waiting_buckets as waiting_buckets

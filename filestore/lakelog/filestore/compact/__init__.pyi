"""What other parts may import of filestore.compact."""

from lakelog.filestore.compact.ahead import compacted_ahead as compacted_ahead
from lakelog.filestore.compact.bucket_work import BucketWork as BucketWork
from lakelog.filestore.compact.bucket_work import Pick as Pick
from lakelog.filestore.compact.bucket_work import due_work as due_work
from lakelog.filestore.compact.bucket_work import must_writers_wait as must_writers_wait
from lakelog.filestore.compact.bucket_work import pick_settling_unit as pick_settling_unit
from lakelog.filestore.compact.bucket_work import pick_unit as pick_unit
from lakelog.filestore.compact.change_merge import changes_between as changes_between
from lakelog.filestore.compact.committing import commit_results as commit_results
from lakelog.filestore.compact.committing import compact_request as compact_request
from lakelog.filestore.compact.committing import log_compaction as log_compaction
from lakelog.filestore.compact.committing import log_failed_compaction as log_failed_compaction
from lakelog.filestore.compact.lookup import BucketLookup as BucketLookup
from lakelog.filestore.compact.picking import CompactUnit as CompactUnit
from lakelog.filestore.compact.result import CompactResult as CompactResult
from lakelog.filestore.compact.rewriting import compact_bucket as compact_bucket

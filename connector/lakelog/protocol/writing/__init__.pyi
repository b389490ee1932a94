"""What other parts may import of protocol.writing."""

from lakelog.protocol.writing.attempts import BucketAnswer as BucketAnswer
from lakelog.protocol.writing.driver import BucketConflictError as BucketConflictError
from lakelog.protocol.writing.driver import Outcome as Outcome
from lakelog.protocol.writing.driver import Verdict as Verdict
from lakelog.protocol.writing.driver import check_identity as check_identity
from lakelog.protocol.writing.driver import commit_batch as commit_batch
from lakelog.protocol.writing.driver import commit_compaction as commit_compaction
from lakelog.protocol.writing.driver import commit_files as commit_files
from lakelog.protocol.writing.eventual import TopicOfRecords as TopicOfRecords
from lakelog.protocol.writing.eventual import check_transactional as check_transactional
from lakelog.protocol.writing.eventual_task import EventualTask as EventualTask
from lakelog.protocol.writing.eventual_task import write_eventually as write_eventually
from lakelog.protocol.writing.finished import done_batches as done_batches
from lakelog.protocol.writing.fresh import FreshReads as FreshReads
from lakelog.protocol.writing.interval import IntervalSnapshots as IntervalSnapshots
from lakelog.protocol.writing.kept_producers import KeptProducers as KeptProducers
from lakelog.protocol.writing.kept_producers import ProducerPool as ProducerPool
from lakelog.protocol.writing.logged_batches import acknowledge as acknowledge
from lakelog.protocol.writing.logged_batches import acknowledged as acknowledged
from lakelog.protocol.writing.logged_batches import buckets_behind as buckets_behind
from lakelog.protocol.writing.logged_batches import check_before_first as check_before_first
from lakelog.protocol.writing.logged_batches import take_in as take_in
from lakelog.protocol.writing.task import BucketTask as BucketTask
from lakelog.protocol.writing.task import write_bucket as write_bucket
from lakelog.protocol.writing.writer_lease import WriterLease as WriterLease
from lakelog.protocol.writing.writer_lease import take_lease as take_lease

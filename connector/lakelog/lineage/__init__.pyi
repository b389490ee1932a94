"""What users and other parts import of `lakelog.lineage`."""

from lakelog.lineage.answers.consistent import ConsistentSnapshots as ConsistentSnapshots
from lakelog.lineage.answers.consistent import NotConsistentError as NotConsistentError
from lakelog.lineage.answers.consistent import consistent_snapshots as consistent_snapshots
from lakelog.lineage.answers.mending import mended as mended
from lakelog.lineage.answers.questions import downstream as downstream
from lakelog.lineage.answers.questions import lineage_graph as lineage_graph
from lakelog.lineage.answers.questions import upstream as upstream
from lakelog.lineage.answers.taint import Tainted as Tainted
from lakelog.lineage.answers.taint import tainted as tainted
from lakelog.lineage.fields.declared_fields import made_from as made_from
from lakelog.lineage.pictures.around import table_graph as table_graph
from lakelog.lineage.records.unreadable import UnreadableTable as UnreadableTable
from lakelog.lineage.records.unreadable import unreadable_tables as unreadable_tables
from lakelog.lineage.tables.feeding import FeedResult as FeedResult
from lakelog.lineage.tables.feeding import feed as feed
from lakelog.lineage.tables.job_verbs import Job as Job
from lakelog.lineage.tables.job_verbs import delete_job as delete_job
from lakelog.lineage.tables.job_verbs import end_job as end_job
from lakelog.lineage.tables.job_verbs import jobs as jobs
from lakelog.lineage.tables.known import known_edges as known_edges
from lakelog.lineage.tables.rebuilding import RebuildResult as RebuildResult
from lakelog.lineage.tables.rebuilding import rebuild as rebuild

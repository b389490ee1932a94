"""What other parts may import of protocol.statements."""

from lakelog.protocol.statements.at_rest import check_at_rest as check_at_rest
from lakelog.protocol.statements.branch_merging import LoggedMerge as LoggedMerge
from lakelog.protocol.statements.other_writers import OtherWriters as OtherWriters
from lakelog.protocol.statements.other_writers import newest_and_others as newest_and_others
from lakelog.protocol.statements.settling import waiting_marks as waiting_marks
from lakelog.protocol.statements.staging import stage_statement as stage_statement
from lakelog.protocol.statements.staging import with_base as with_base
from lakelog.protocol.statements.statement_runs import LoggedTable as LoggedTable
from lakelog.protocol.statements.statement_runs import target_of as target_of
from lakelog.protocol.statements.statements import unfinished_in as unfinished_in
from lakelog.protocol.statements.unfinished import UnfinishedBatch as UnfinishedBatch
from lakelog.protocol.statements.unfinished import abandon_writer as abandon_writer
from lakelog.protocol.statements.unfinished import check_whole as check_whole
from lakelog.protocol.statements.unfinished import unfinished_batches as unfinished_batches
from lakelog.protocol.statements.write_log import OpenedLog as OpenedLog
from lakelog.protocol.statements.write_log import WriteLog as WriteLog
from lakelog.protocol.statements.write_parts import BATCH_BYTES_MAX as BATCH_BYTES_MAX
from lakelog.protocol.statements.write_parts import WritingTable as WritingTable

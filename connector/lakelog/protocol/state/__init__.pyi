"""What other parts may import of protocol.state."""

from lakelog.protocol.state.change_tracking import ChangeTracking as ChangeTracking
from lakelog.protocol.state.change_tracking import MarkCheck as MarkCheck
from lakelog.protocol.state.change_tracking import check_change_tracking as check_change_tracking
from lakelog.protocol.state.header import BucketFile as BucketFile
from lakelog.protocol.state.header import StagedPart as StagedPart
from lakelog.protocol.state.header_files import BatchMark as BatchMark
from lakelog.protocol.state.header_files import HeaderFiles as HeaderFiles
from lakelog.protocol.state.log_generations import EndedGeneration as EndedGeneration
from lakelog.protocol.state.log_generations import ended_before as ended_before
from lakelog.protocol.state.log_generations import older_schema as older_schema
from lakelog.protocol.state.log_generations import state_of_log as state_of_log
from lakelog.protocol.state.log_leases import LogLeases as LogLeases
from lakelog.protocol.state.loggable import check_loggable as check_loggable
from lakelog.protocol.state.state import Batch as Batch
from lakelog.protocol.state.state import LogState as LogState
from lakelog.protocol.state.state import TableState as TableState
from lakelog.protocol.state.steps import StepObserver as StepObserver
from lakelog.protocol.state.steps import process_observer as process_observer
from lakelog.protocol.state.table_position import TablePosition as TablePosition
from lakelog.protocol.state.writes import digest_of_sources as digest_of_sources
from lakelog.protocol.state.writes import sources_of as sources_of
from lakelog.protocol.state.writes import writer_user as writer_user

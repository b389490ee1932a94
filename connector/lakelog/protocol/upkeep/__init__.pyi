"""What other parts may import of protocol.upkeep."""

from lakelog.protocol.upkeep.health import Finding as Finding
from lakelog.protocol.upkeep.health import HealthReport as HealthReport
from lakelog.protocol.upkeep.health import Status as Status
from lakelog.protocol.upkeep.health_kafka import examine_kafka as examine_kafka
from lakelog.protocol.upkeep.health_table import examine_table as examine_table
from lakelog.protocol.upkeep.log_check import check_log as check_log
from lakelog.protocol.upkeep.log_check import repair_log as repair_log
from lakelog.protocol.upkeep.log_expiry import expire_log as expire_log
from lakelog.protocol.upkeep.log_expiry import expire_log_after_commit as expire_log_after_commit
from lakelog.protocol.upkeep.log_transactions import EndedTransactions as EndedTransactions
from lakelog.protocol.upkeep.log_transactions import LogTransaction as LogTransaction
from lakelog.protocol.upkeep.log_transactions import end_transactions as end_transactions
from lakelog.protocol.upkeep.log_transactions import list_transactions as list_transactions
from lakelog.protocol.upkeep.log_verify import LogVerification as LogVerification
from lakelog.protocol.upkeep.log_verify import verify_log as verify_log
from lakelog.protocol.upkeep.progress_topic import publish_progress as publish_progress

"""What other parts may import of protocol.life."""

from lakelog.protocol.life.ended_logs import drop_ended_logs as drop_ended_logs
from lakelog.protocol.life.ended_logs import older_logs as older_logs
from lakelog.protocol.life.identity_renewal import new_identity as new_identity
from lakelog.protocol.life.log_beginning import is_cut_off as is_cut_off
from lakelog.protocol.life.log_beginning import newest_of as newest_of
from lakelog.protocol.life.log_breaks import record_break as record_break
from lakelog.protocol.life.log_life import add_log as add_log
from lakelog.protocol.life.log_life import remove_log as remove_log
from lakelog.protocol.life.log_life import renew_log as renew_log
from lakelog.protocol.life.log_rescale import rescale_log as rescale_log
from lakelog.protocol.life.orphans import ended_marks as ended_marks
from lakelog.protocol.life.orphans import names_in_log as names_in_log

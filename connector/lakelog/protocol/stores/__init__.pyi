"""What other parts may import of protocol.stores."""

from lakelog.protocol.stores.driver_snapshots import DriverSnapshots as DriverSnapshots
from lakelog.protocol.stores.encoded_parts import ChangeRows as ChangeRows
from lakelog.protocol.stores.encoded_parts import Encoded as Encoded
from lakelog.protocol.stores.encoded_parts import encode_bucket as encode_bucket
from lakelog.protocol.stores.encoded_parts import encode_part as encode_part
from lakelog.protocol.stores.log_gaps import gap_test as gap_test
from lakelog.protocol.stores.log_target import LogTarget as LogTarget
from lakelog.protocol.stores.table_states import OtherLogError as OtherLogError
from lakelog.protocol.stores.table_states import read_state as read_state
from lakelog.protocol.stores.task_stores import TaskFiles as TaskFiles
from lakelog.protocol.stores.task_stores import TaskLog as TaskLog

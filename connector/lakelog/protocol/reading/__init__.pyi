"""What other parts may import of protocol.reading."""

from lakelog.protocol.reading.healed_files import ChangeFile as ChangeFile
from lakelog.protocol.reading.healed_files import HealedFiles as HealedFiles
from lakelog.protocol.reading.healing import HealedRange as HealedRange
from lakelog.protocol.reading.healing import bucket_range as bucket_range
from lakelog.protocol.reading.healing import file_places as file_places
from lakelog.protocol.reading.healing import is_held as is_held
from lakelog.protocol.reading.log_tail import LogTail as LogTail
from lakelog.protocol.reading.log_tail import tail_of as tail_of
from lakelog.protocol.reading.normalizing import BucketBase as BucketBase
from lakelog.protocol.reading.normalizing import NormalizedRange as NormalizedRange
from lakelog.protocol.reading.normalizing import Normalizer as Normalizer
from lakelog.protocol.reading.operation_stops import OperationStops as OperationStops

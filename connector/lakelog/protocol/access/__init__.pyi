"""What other parts may import of protocol.access."""

from lakelog.protocol.access.kafka_profiles import BOOTSTRAP_KEY as BOOTSTRAP_KEY
from lakelog.protocol.access.kafka_profiles import CALL_PREFIX as CALL_PREFIX
from lakelog.protocol.access.kafka_profiles import call_settings as call_settings
from lakelog.protocol.access.kafka_profiles import profile_defaults as profile_defaults
from lakelog.protocol.access.kafka_profiles import user_settings as user_settings
from lakelog.protocol.access.kafka_profiles import without_call_settings as without_call_settings
from lakelog.protocol.access.place import check_no_copy as check_no_copy
from lakelog.protocol.access.place import forget_renames as forget_renames
from lakelog.protocol.access.place import is_copy as is_copy
from lakelog.protocol.access.place import original_of as original_of
from lakelog.protocol.access.place import record_place as record_place
from lakelog.protocol.access.place import record_rename as record_rename
from lakelog.protocol.access.place import recorded_place as recorded_place
from lakelog.protocol.access.place import recorded_places as recorded_places
from lakelog.protocol.access.place import spot_of as spot_of
from lakelog.protocol.access.servers import require_kafka_client as require_kafka_client
from lakelog.protocol.access.table_log import TableLog as TableLog
from lakelog.protocol.access.table_log import await_topic as await_topic
from lakelog.protocol.access.table_log import kafka_topic as kafka_topic
from lakelog.protocol.access.table_log import log_of as log_of
from lakelog.protocol.access.topics import drop_topic as drop_topic
from lakelog.protocol.access.topics import new_topic as new_topic

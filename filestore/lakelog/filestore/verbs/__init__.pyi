"""What other parts may import of filestore.verbs."""

from lakelog.filestore.verbs.new_tables import check_new_table as check_new_table
from lakelog.filestore.verbs.read_verbs import Selection as Selection
from lakelog.filestore.verbs.restore_target import target_of as target_of
from lakelog.filestore.verbs.write_verbs import WriteMode as WriteMode

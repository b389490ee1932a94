"""What other parts may import of filestore.expire."""

from lakelog.filestore.expire.before_expiry import take_lineage_of_branch as take_lineage_of_branch
from lakelog.filestore.expire.before_expiry import take_lineage_of_deleted as take_lineage_of_deleted
from lakelog.filestore.expire.before_expiry import unfed_from as unfed_from
from lakelog.filestore.expire.orphans import NamedElsewhere as NamedElsewhere
from lakelog.filestore.expire.orphans import OrphanFile as OrphanFile
from lakelog.filestore.expire.orphans import Orphans as Orphans
from lakelog.filestore.expire.references import documents_of as documents_of
from lakelog.filestore.expire.retention_rules import Expired as Expired
from lakelog.filestore.expire.retention_rules import Retention as Retention

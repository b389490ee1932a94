"""What other parts may import of filestore.metadata.origins."""

from lakelog.filestore.metadata.origins.cleared_rows import CLEARS_ROWS as CLEARS_ROWS
from lakelog.filestore.metadata.origins.cleared_rows import Cleared as Cleared
from lakelog.filestore.metadata.origins.cleared_rows import Clearing as Clearing
from lakelog.filestore.metadata.origins.cleared_rows import Clears as Clears
from lakelog.filestore.metadata.origins.cleared_rows import WrongSnapshot as WrongSnapshot
from lakelog.filestore.metadata.origins.cleared_rows import clears_properties as clears_properties
from lakelog.filestore.metadata.origins.cleared_rows import mended_property as mended_property
from lakelog.filestore.metadata.origins.cleared_rows import parse_cleared as parse_cleared
from lakelog.filestore.metadata.origins.restored import restored_state as restored_state
from lakelog.filestore.metadata.origins.restored import restores_properties as restores_properties
from lakelog.filestore.metadata.origins.row_changes import REPLACES_ROWS as REPLACES_ROWS
from lakelog.filestore.metadata.origins.row_changes import changes_rows as changes_rows
from lakelog.filestore.metadata.origins.row_sources import ALL_READERS as ALL_READERS
from lakelog.filestore.metadata.origins.row_sources import ORIGIN_MARK as ORIGIN_MARK
from lakelog.filestore.metadata.origins.row_sources import STATEMENTS as STATEMENTS
from lakelog.filestore.metadata.origins.row_sources import LineKey as LineKey
from lakelog.filestore.metadata.origins.row_sources import ReaderState as ReaderState
from lakelog.filestore.metadata.origins.row_sources import ReadVersion as ReadVersion
from lakelog.filestore.metadata.origins.row_sources import RowSource as RowSource
from lakelog.filestore.metadata.origins.row_sources import RowSources as RowSources
from lakelog.filestore.metadata.origins.row_sources import SourceBreak as SourceBreak
from lakelog.filestore.metadata.origins.row_sources import WriterName as WriterName
from lakelog.filestore.metadata.origins.unseen_changes import UnseenChanges as UnseenChanges
from lakelog.filestore.metadata.origins.unseen_changes import is_unseen as is_unseen
from lakelog.filestore.metadata.origins.unseen_changes import parse_unseen as parse_unseen

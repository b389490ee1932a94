"""What other parts may import of filestore.data."""

from lakelog.filestore.data.data_reader import read_data_file as read_data_file
from lakelog.filestore.data.data_writer import write_data_files as write_data_files
from lakelog.filestore.data.group_cache import CacheShare as CacheShare
from lakelog.filestore.data.group_cache import GroupCache as GroupCache
from lakelog.filestore.data.row_pieces import StoredRows as StoredRows
from lakelog.filestore.data.taken_rows import WantedRows as WantedRows
from lakelog.filestore.data.taken_rows import files_without as files_without

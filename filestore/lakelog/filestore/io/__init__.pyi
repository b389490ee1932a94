"""What other parts may import of filestore.io."""

from lakelog.filestore.io.bounded_files import BoundedFileIO as BoundedFileIO
from lakelog.filestore.io.bounded_files import bounded_io as bounded_io
from lakelog.filestore.io.fileio import FileEntry as FileEntry
from lakelog.filestore.io.fileio import FileIO as FileIO
from lakelog.filestore.io.folders import FolderStore as FolderStore
from lakelog.filestore.io.integrity import digest_of as digest_of
from lakelog.filestore.io.integrity import name_with_digest as name_with_digest
from lakelog.filestore.io.integrity import read_checked as read_checked
from lakelog.filestore.io.local_files import LocalFileIO as LocalFileIO
from lakelog.filestore.io.location import Location as Location
from lakelog.filestore.io.location import store_options as store_options
from lakelog.filestore.io.path_forms import DATABASE_SUFFIX as DATABASE_SUFFIX
from lakelog.filestore.io.path_forms import EXTERNAL_PATHS as EXTERNAL_PATHS
from lakelog.filestore.io.path_forms import is_local as is_local
from lakelog.filestore.io.path_forms import is_object_store as is_object_store
from lakelog.filestore.io.path_forms import user_path as user_path
from lakelog.filestore.io.path_forms import warehouse_of as warehouse_of
from lakelog.filestore.io.s3_access import S3_OPTIONS as S3_OPTIONS
from lakelog.filestore.io.syncing import LaterSyncs as LaterSyncs

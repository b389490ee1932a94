"""What other parts may import of filestore.metadata.manifests."""

from lakelog.filestore.metadata.manifests.data_file import SEQUENCE_MAX as SEQUENCE_MAX
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta as DataFileMeta
from lakelog.filestore.metadata.manifests.levels import runs_of as runs_of
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId as BucketId
from lakelog.filestore.metadata.manifests.manifest_entries import FileKind as FileKind
from lakelog.filestore.metadata.manifests.manifest_entries import ManifestEntry as ManifestEntry

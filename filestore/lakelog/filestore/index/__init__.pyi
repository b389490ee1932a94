"""What other parts may import of filestore.index."""

from lakelog.filestore.index.hash_index import HashIndex as HashIndex
from lakelog.filestore.index.hash_index import HashIndexChange as HashIndexChange

"""What other parts may import of filestore.encoding."""

from lakelog.filestore.encoding.arrow_casts import named_type as named_type
from lakelog.filestore.encoding.arrow_casts import refused_place as refused_place
from lakelog.filestore.encoding.arrow_casts import with_named_fields as with_named_fields
from lakelog.filestore.encoding.binary_row import IN_SLOT_BYTES as IN_SLOT_BYTES
from lakelog.filestore.encoding.binary_row import MAX_COMPACT_PRECISION as MAX_COMPACT_PRECISION
from lakelog.filestore.encoding.binary_row import null_bits_width as null_bits_width
from lakelog.filestore.encoding.binary_row import serialize_row as serialize_row
from lakelog.filestore.encoding.bucket import bucket_of as bucket_of
from lakelog.filestore.encoding.bucket import hashes_of as hashes_of

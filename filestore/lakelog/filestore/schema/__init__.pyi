"""What other parts may import of filestore.schema."""

from lakelog.filestore.schema.column_defaults import default_of as default_of
from lakelog.filestore.schema.column_defaults import default_text as default_text
from lakelog.filestore.schema.column_paths import ColumnPath as ColumnPath
from lakelog.filestore.schema.column_paths import dotted as dotted
from lakelog.filestore.schema.column_paths import named_fields as named_fields
from lakelog.filestore.schema.line_names import line_name as line_name
from lakelog.filestore.schema.new_schema import build_schema as build_schema
from lakelog.filestore.schema.paths import BRANCH_INFIX as BRANCH_INFIX
from lakelog.filestore.schema.paths import MAIN_BRANCH as MAIN_BRANCH
from lakelog.filestore.schema.paths import FileNames as FileNames
from lakelog.filestore.schema.paths import TablePaths as TablePaths
from lakelog.filestore.schema.row_places import PLACE_NAMES as PLACE_NAMES
from lakelog.filestore.schema.row_places import has_places as has_places
from lakelog.filestore.schema.schema import SEQUENCE_NUMBER as SEQUENCE_NUMBER
from lakelog.filestore.schema.schema import VALUE_KIND as VALUE_KIND
from lakelog.filestore.schema.schema import TableSchema as TableSchema
from lakelog.filestore.schema.schema_manager import SchemaManager as SchemaManager

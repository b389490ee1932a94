"""What other parts may import of filestore.alter."""

from lakelog.filestore.alter.alter import SchemaChanges as SchemaChanges
from lakelog.filestore.alter.alter import SchemaCheck as SchemaCheck
from lakelog.filestore.alter.alter import alter_schema as alter_schema
from lakelog.filestore.alter.rescale import move_rows as move_rows
from lakelog.filestore.alter.rescale import rescaled_schema as rescaled_schema
from lakelog.filestore.alter.schema_changes import AddColumn as AddColumn
from lakelog.filestore.alter.schema_changes import DropColumn as DropColumn
from lakelog.filestore.alter.schema_changes import Place as Place
from lakelog.filestore.alter.schema_changes import Position as Position
from lakelog.filestore.alter.schema_changes import RemoveOption as RemoveOption
from lakelog.filestore.alter.schema_changes import RenameColumn as RenameColumn
from lakelog.filestore.alter.schema_changes import SchemaChange as SchemaChange
from lakelog.filestore.alter.schema_changes import SetComment as SetComment
from lakelog.filestore.alter.schema_changes import SetDefault as SetDefault
from lakelog.filestore.alter.schema_changes import SetNullability as SetNullability
from lakelog.filestore.alter.schema_changes import SetOption as SetOption
from lakelog.filestore.alter.schema_changes import SetTableComment as SetTableComment
from lakelog.filestore.alter.schema_changes import UpdateColumnPosition as UpdateColumnPosition
from lakelog.filestore.alter.schema_changes import UpdateColumnType as UpdateColumnType
from lakelog.filestore.alter.written_defaults import stored_default as stored_default
from lakelog.filestore.alter.written_defaults import with_default as with_default

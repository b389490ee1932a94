"""The columns of new tables, from schemas, DDL and rows."""

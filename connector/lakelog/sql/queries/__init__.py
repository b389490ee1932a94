"""SELECT: DuckDB over the tables of a statement."""

"""Reads by DuckDB, the lowest first: the oldest runs, the files that it reads itself, relations, kept rows."""

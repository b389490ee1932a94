"""Reads: the files that a read needs, and rows for Arrow, polars, DuckDB and streams of changes."""

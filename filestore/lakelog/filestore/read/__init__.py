"""Reads: the files that a read needs, and rows for Arrow, polars, DuckDB and streams of changes."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)

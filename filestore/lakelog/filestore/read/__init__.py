"""Reads: which files a read needs, and rows for Arrow, polars and streams of changes."""

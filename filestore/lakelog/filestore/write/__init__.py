"""Writes: rows are checked, assigned to buckets, buffered, sorted and spilled, and written to files."""

"""Writes: rows buffered, sorted and spilled, assigned to buckets, and prepared as files."""

"""Data files: reading and writing rows, and the statistics of columns."""

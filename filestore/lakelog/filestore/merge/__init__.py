"""Merging sorted runs in columns."""

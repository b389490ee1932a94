"""Batch statements on tables with a log: staged, prepared, logged and finished; and what is left of unfinished ones."""

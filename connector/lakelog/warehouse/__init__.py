"""A warehouse folder: its names, the stores of its tables, and its stored system tables."""

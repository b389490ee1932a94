"""The schema of a table, its rules, the names of its files, and rows of older schemas."""

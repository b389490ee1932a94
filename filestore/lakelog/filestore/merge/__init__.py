"""Merge engines: the rows of a key in sorted runs become one row, column by column."""

"""States of a table that a read names, and the rows in which two states differ."""

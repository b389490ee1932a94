"""`lakelog table` and `lakelog database`."""

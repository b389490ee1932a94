"""The command line `lakelog`."""

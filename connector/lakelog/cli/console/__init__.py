"""The console of the command line: its output and its arguments."""

"""The door of the command line: what it prints, and its arguments."""

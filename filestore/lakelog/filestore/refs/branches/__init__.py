"""Branches: creating, renaming, deleting them, and giving a whole branch to its table."""

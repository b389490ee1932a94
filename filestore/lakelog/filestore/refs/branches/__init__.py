"""Branches: made, renamed, deleted, and taken over as a whole."""

"""Commits: one snapshot each, conflicts with other writers, and unknown outcomes."""

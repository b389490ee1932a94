"""Commits: one snapshot each, conflicts with other writers, and outcomes that are unknown."""

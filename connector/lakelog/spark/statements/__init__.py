"""Statements whose changes tasks compute, each task for buckets of its own; the driver gets the names of files."""

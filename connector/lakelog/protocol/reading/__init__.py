"""Reads of a log beyond its records: full changelogs, and ranges that are read from the files."""

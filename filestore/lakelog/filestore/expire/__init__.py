"""Expiry of snapshots, changelogs, partitions and writers, and the removal of orphan files."""

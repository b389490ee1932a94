"""Compaction: the choice of runs (pure), their merge, and changelogs."""

"""Compaction as a Spark job."""

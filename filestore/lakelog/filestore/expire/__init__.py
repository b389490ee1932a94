"""Expiry: snapshots, partitions and files that nothing names any longer."""

"""Restore and rollback: an older state becomes the newest one."""

"""Upkeep, description and comparison of a table."""

"""Upkeep, description and drop of a table."""

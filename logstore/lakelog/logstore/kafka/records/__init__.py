"""Reads of the records of a topic."""

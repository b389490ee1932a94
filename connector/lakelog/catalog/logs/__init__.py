"""Verbs of tables that go through the log: its life, statements, changes of columns."""

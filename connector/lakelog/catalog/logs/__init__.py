"""Verbs of tables that go through the log: life of the log, statements, changes of columns."""

"""The system tables of a warehouse."""

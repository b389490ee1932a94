"""Names of tables, and arguments of verbs."""

"""Tags: those that users create, and those that writers create."""

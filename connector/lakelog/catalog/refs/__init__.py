"""Tags, branches and restores of tables with and without a log."""

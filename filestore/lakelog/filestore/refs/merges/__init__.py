"""The three-way merge of a branch into its table."""

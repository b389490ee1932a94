"""What a query without Spark makes its columns from, by its text."""

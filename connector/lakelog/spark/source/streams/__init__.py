"""The stream readers that Spark is given."""

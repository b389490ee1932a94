"""Changes of a schema, and of the number of buckets."""

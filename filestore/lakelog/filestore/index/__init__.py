"""Index files: hash indexes of dynamic buckets and deletion vectors."""

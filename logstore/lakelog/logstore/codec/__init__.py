"""Records of the log: rows as debezium-json, and back."""

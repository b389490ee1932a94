"""The embedded Kafka broker: its jars, its configuration, and its process."""

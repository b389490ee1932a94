"""Kafka clients: topics, transactional writers, readers, and their settings."""

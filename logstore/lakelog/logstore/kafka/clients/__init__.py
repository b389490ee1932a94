"""Kafka clients: settings, errors, rights, topics, offsets."""

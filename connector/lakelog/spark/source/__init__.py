"""The source: batch reads and streams."""

"""Places in a stream, the parts between two of them, and their rows."""

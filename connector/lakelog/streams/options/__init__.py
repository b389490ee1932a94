"""What a stream asks for: where it starts, where its batches end, and what it stops at."""

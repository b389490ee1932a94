"""The record of a commit: where the rows of its batches come from."""

"""Compaction: picking runs (pure) and rewriting them."""

"""Edges between snapshots, and the system tables that hold them."""

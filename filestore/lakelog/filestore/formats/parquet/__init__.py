"""Parquet data files."""

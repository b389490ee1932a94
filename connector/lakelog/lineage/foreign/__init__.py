"""The lineage of columns that other producers tell."""

"""`lakelog lineage`."""

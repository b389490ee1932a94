"""The page of the lineage of columns: its answers and its files, and the page in one file."""

"""The line of a table's snapshots, and what each of them shows of its sources."""

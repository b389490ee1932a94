"""The phases of a stream: first rows, the log, files that have what the log lost, snapshots, older logs."""

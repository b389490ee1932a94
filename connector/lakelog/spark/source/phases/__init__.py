"""The phases of a stream: its start, snapshots, log, healing, groups."""

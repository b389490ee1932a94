"""Tags and branches: snapshots and lines of snapshots that have names."""

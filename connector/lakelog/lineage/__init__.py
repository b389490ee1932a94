"""Where rows come from: which snapshots of which tables made a snapshot."""

"""Tags: by hand, and by writers."""

"""The server of the page, and REST for other programs."""

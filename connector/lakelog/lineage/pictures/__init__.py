"""The graph around a table, as text and as an SVG."""

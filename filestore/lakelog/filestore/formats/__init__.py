"""File formats: bytes to records or Arrow, and back."""

"""Checks, repairs, expiry and comparisons of a log."""

"""The generations of a log: added, rescaled, renewed, removed, broken by other engines, given a new identity."""

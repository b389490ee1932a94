"""Manifests: which data files a snapshot added and deleted."""

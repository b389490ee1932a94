"""Texts as statements: the dialect, and what names mean."""

"""Vocabulary that the parts of lakelog share: errors, options, types."""

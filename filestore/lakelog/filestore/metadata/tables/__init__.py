"""A table as every verb needs it, and the checks of its folder."""

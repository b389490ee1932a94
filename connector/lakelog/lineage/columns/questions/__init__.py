"""Questions about fields: an index of all that is known, walks over its edges, and their answers."""

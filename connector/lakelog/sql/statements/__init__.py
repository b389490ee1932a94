"""The other statements: each is a verb of `Table` or `Catalog`."""

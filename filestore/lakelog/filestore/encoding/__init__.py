"""The bytes of Paimon's binary rows, hashes, bitmaps, and of values as Java writes them."""

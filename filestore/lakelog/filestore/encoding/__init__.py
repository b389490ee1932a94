"""The bytes of Paimon's binary rows, hashes and bitmaps, and values as strings and casts as in Java."""

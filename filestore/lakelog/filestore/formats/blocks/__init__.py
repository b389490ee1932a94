"""What all formats of data files share: checksums, errors, limits of inflating."""

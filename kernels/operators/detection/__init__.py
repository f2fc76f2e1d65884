"""Detection: decoding and selection of boxes."""

"""Windows of an image, combined."""

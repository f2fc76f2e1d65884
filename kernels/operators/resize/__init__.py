"""Images of other sizes."""

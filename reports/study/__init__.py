"""The reports of a study: page, figures, and text for a terminal."""

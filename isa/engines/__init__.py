"""MAC engines: one file each, closed forms from a problem's sizes to cycles and their split."""

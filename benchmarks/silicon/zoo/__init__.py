"""Networks that no constant of a preset was chosen by, built by this repository."""

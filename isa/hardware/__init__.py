"""The hardware description, its file format, the rules between its keys, the presets and the host CPU model."""

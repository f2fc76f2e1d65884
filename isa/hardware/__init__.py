"""Hardware descriptions: one frozen, validated value, its file, its rules, the presets, the host CPU."""

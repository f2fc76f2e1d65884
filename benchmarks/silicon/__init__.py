"""Presets beside the chips that they are named after: every row measured against simulated, and what comes of them."""

"""The version of npusim that is installed."""

from __future__ import annotations

from functools import cache


@cache
def npusim_version() -> str:
    """As the package says it: "0.1.0"."""
    from importlib import metadata

    return metadata.version("npusim")

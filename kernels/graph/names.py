"""Names of tensors and layers: how messages quote them, and how they become unique."""

from __future__ import annotations

_LONGEST_SHOWN = 60


def quoted(name: str) -> str:
    """Return a name for a message; the middle of those that converters paste together is left out.

    What is no printable character is escaped, so that a message stays one line.
    """
    if not name.isprintable():
        name = name.encode("unicode_escape").decode()
    half = _LONGEST_SHOWN // 2
    return f'"{name}"' if len(name) <= _LONGEST_SHOWN else f'"{name[:half]}...{name[-half:]}"'


def unique(name: str, uses: dict[str, int]) -> str:
    """Return `name`, with a number behind it if it is in use; `uses` counts how often each name was asked for."""
    candidate = name
    while candidate in uses:
        uses[name] += 1
        candidate = f"{name}_{uses[name]}"
    uses[candidate] = 0
    return candidate

"""The host CPU (placeholder until the table lands in the next commit)."""

from __future__ import annotations


def core_fault(name: str) -> str | None:
    """Why a core is not known, or None."""
    return None if name in ("cortex-m7", "cortex-a53", "cortex-a76") else "unknown core"

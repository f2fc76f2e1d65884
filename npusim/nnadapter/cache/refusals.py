"""Why a kept compiled model is not taken: one class per reason, each saying what is and what must be."""

from __future__ import annotations

from npusim.frontends.nnadapter.errors import InvalidParameter


class CacheRefused(InvalidParameter):
    """A compiled model that is not restored; a compilation that has the model compiles it anew."""


class BadMagic(CacheRefused):
    """It does not begin as a `.nnc` container does."""


class BadVersion(CacheRefused):
    """It is a container of another version."""


class BadChecksum(CacheRefused):
    """Its bytes are not those that were written."""


class Truncated(CacheRefused):
    """Header, entries and bytes do not fit each other: some are missing, or stand behind the last entry."""


class BadContent(CacheRefused):
    """Its bytes are those that were written, but what they say breaks a rule."""


class WrongToken(CacheRefused):
    """It was kept under another token."""


class WrongDevice(CacheRefused):
    """It was compiled for devices that the context does not have."""


class WrongMachine(CacheRefused):
    """It was compiled by another npusim, or for devices that are configured otherwise."""

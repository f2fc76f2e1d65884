"""The event log, at levels GLOG_v=1..5 of the environment as in Paddle Lite; 5 logs everything.

Lines go to the logger `npusim.nnadapter`, and to stderr if logging is not configured.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

DEVICES, PIECES, REASONS, RUNS, MODELS = 1, 2, 3, 4, 5
"""Levels of events: devices and contexts; pieces of a model; what devices refuse; runs; whole models."""

VARIABLE = "GLOG_v"

_LOGGER = logging.getLogger("npusim.nnadapter")


def verbosity() -> int:
    """Return the level that the environment sets; 0 if it sets none."""
    text = os.environ.get(VARIABLE, "")
    return int(text) if text.isdecimal() and len(text) < 4 else 0


def log(level: int, text: Callable[[], str]) -> None:
    """Log a text, which is composed only if events of this level are asked for."""
    if level > verbosity():
        return
    if not _LOGGER.hasHandlers():
        _LOGGER.addHandler(logging.StreamHandler())
    if _LOGGER.getEffectiveLevel() > logging.INFO:
        _LOGGER.setLevel(logging.INFO)
    _LOGGER.info("%s", text())

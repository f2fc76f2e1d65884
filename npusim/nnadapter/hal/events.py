"""What happens, for who asks: GLOG_v=1..5 in the environment, as Paddle Lite has it; 5 says everything.

Lines go to the logger `npusim.nnadapter`, and to stderr where nobody has configured logging.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

DEVICES, PIECES, REASONS, RUNS, MODELS = 1, 2, 3, 4, 5
"""From which level on is said: devices and contexts; the pieces of a model; what devices refuse; runs; whole models."""

VARIABLE = "GLOG_v"

_LOGGER = logging.getLogger("npusim.nnadapter")


def verbosity() -> int:
    """The level of the environment; 0 where it says none."""
    text = os.environ.get(VARIABLE, "")
    return int(text) if text.isdecimal() and len(text) < 4 else 0


def say(level: int, text: Callable[[], str]) -> None:
    """Says a text, which is made only if somebody asks for events of this level."""
    if level > verbosity():
        return
    if not _LOGGER.hasHandlers():
        _LOGGER.addHandler(logging.StreamHandler())
    if _LOGGER.getEffectiveLevel() > logging.INFO:
        _LOGGER.setLevel(logging.INFO)
    _LOGGER.info("%s", text())

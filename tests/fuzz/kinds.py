"""The kinds of fuzzing, by name."""

from __future__ import annotations

from . import graphs, models, programs
from .harness import Kind

KINDS: dict[str, Kind] = {
    "models": models.KIND,
    "graphs": graphs.KIND,
    "programs": programs.KIND,
}

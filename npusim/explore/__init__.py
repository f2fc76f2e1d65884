"""Searches of hardware spaces: points compiled and simulated, collected in a study on disk.

from npusim.explore import Workload, explore, read_space
file = read_space("space.toml")
study = explore([Workload("ds_cnn", npusim.load("ds_cnn"))], file.space, file.sampling, "study")
study.front, study.sensitivities, study.to_pandas()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npusim.explore.evaluate import Record, Workload
    from npusim.explore.search import explore
    from npusim.explore.space import Space
    from npusim.explore.space_file import Sampling, SpaceError, read_space
    from npusim.explore.study import Study

# A worker imports only what it needs.
_HOMES = {
    "Record": "evaluate",
    "Sampling": "space_file",
    "Space": "space",
    "SpaceError": "space_file",
    "Study": "study",
    "Workload": "evaluate",
    "explore": "search",
    "read_space": "space_file",
}

__all__ = ["Record", "Sampling", "Space", "SpaceError", "Study", "Workload", "explore", "read_space"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'npusim.explore' has no attribute {name!r}")
    return getattr(import_module(f"npusim.explore.{_HOMES[name]}"), name)

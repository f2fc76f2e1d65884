"""Searches of hardware spaces: points compiled and simulated, collected in a study on disk.

from npusim.explore import Workload, explore, read_space

file = read_space("space.toml")
study = explore([Workload("ds_cnn", npusim.load("ds_cnn"))], file.space, file.sampling, "study")
study.front, study.sensitivities, study.to_pandas()
"""

from __future__ import annotations

from npusim.study.evaluate import Record, Workload
from npusim.study.space import Space
from npusim.study.space_file import Sampling, SpaceError, read_space
from npusim.views.study import Study, explore

__all__ = ["Record", "Sampling", "Space", "SpaceError", "Study", "Workload", "explore", "read_space"]

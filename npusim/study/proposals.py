"""Who chooses the points of a search, by the name of the sampler."""

from __future__ import annotations

from importlib.metadata import version

from npusim.study import optuna_samplers, samplers
from npusim.study.samplers import Sampler
from npusim.study.space_file import Sampling


def sampler(sampling: Sampling) -> Sampler:
    """The sampler of a kind."""
    if sampling.kind == "grid":
        return samplers.grid
    if sampling.kind == "random":
        return samplers.random
    return optuna_samplers.search


def proposers(sampling: Sampling) -> dict[str, str]:
    """What the proposals of a sampler depend on besides its seed: another Optuna proposes other points."""
    if sampling.kind in ("grid", "random"):
        return {}
    return {"optuna": version("optuna")}

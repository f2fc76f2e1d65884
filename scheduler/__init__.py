"""The scheduler: how a network is fitted to a machine."""

from npusim.scheduler.compile import compile_graph, schedule
from npusim.scheduler.network.network import prepare

__all__ = ["compile_graph", "prepare", "schedule"]

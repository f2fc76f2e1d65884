"""The scheduler: how a network is fitted to a machine."""

from npusim.scheduler.compile import compile_graph

__all__ = ["compile_graph"]

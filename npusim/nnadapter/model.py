"""The model that applications build, and what contexts say of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.frontends.nnadapter import model as door
from npusim.frontends.nnadapter.errors import InvalidParameter, said
from npusim.kernels.graph.graph import Graph

if TYPE_CHECKING:
    from npusim.nnadapter.context import Context, Supported


class Model(door.Model):
    """A network, built by calls or read by another door.

    graphs: of a model that was read with several shapes of its inputs, one per choice.
    """

    graphs: tuple[Graph, ...] = ()

    @property
    def graph(self) -> Graph:
        """The graph of a model that was read. Raises InvalidParameter for one that calls have built."""
        if self._graph is None:
            raise InvalidParameter(f"{self.name}: is no model that was read")
        return self._graph

    def supported_operations(self, context: Context) -> Supported:
        """Per operation whether a device of the context can do it; `.reasons` says which cannot, and why.

        Raises InvalidParameter for what is no context, and for a model that is not finished.
        """
        from npusim.nnadapter.context import Context

        if not isinstance(context, Context):
            raise InvalidParameter(f"context: is {said(context)}, must be a Context")
        return context.supported_operations(self)

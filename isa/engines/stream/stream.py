"""The streaming MAC engine type; its closed form is in `npusim.isa.engines.stream.timing`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from npusim.isa.base.cause import Cause
from npusim.isa.engines.engine import ArrayRule, Circuits, Layout, OneLayout, Problem, Use, in_turn
from npusim.isa.engines.mac_array import MacArray

if TYPE_CHECKING:
    from npusim.isa.engines.stream.timing import Shape


class Stream(OneLayout):
    """The engine type whose units each compute one output element per cycle from whole kernel windows."""

    kind: ClassVar[str] = "stream"
    sizes: ClassVar[tuple[str, ...]] = ("mac_array.stream.units", "mac_array.stream.multipliers")
    works: ClassVar[str] = "feature maps stream through the array"
    larger: ClassVar[tuple[Mapping[str, float], ...]] = (
        {"stream.units_per_layer": 2},
        {"stream.multipliers": 2},
    )
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause(
            "units_at_rest",
            "units at rest",
            "#17879b",
            "inside the MAC array: some units take no part in the layer",
            ("mac_array.stream.units_per_layer",),
        ),
        Cause(
            "windows",
            "whole windows",
            "#56b7b0",
            "inside the MAC array: whole kernel windows leave multipliers unused, or a pass has fewer channels",
            ("mac_array.stream.multipliers",),
        ),
        Cause(
            "stream_port",
            "stream port",
            "#7fa6dc",
            "inside the MAC array: feature maps or kernels arrive more slowly than they are multiplied",
            ("mac_array.ifm_bytes_per_cycle", "mac_array.weight_bytes_per_cycle", "mac_array.stream.kernels"),
        ),
        Cause(
            "stream_output",
            "stream output",
            "#c3d8ee",
            "inside the MAC array: the array waits for the output stage",
            ("mac_array.output_lanes",),
        ),
    )

    def macs_per_cycle(self, array: MacArray) -> int:
        """Return the multipliers of all units, even of those that never work on the same layer."""
        return array.streams.units * array.streams.multipliers

    def width(self, array: MacArray) -> int:
        """Return the number of kernels that the units hold at a time."""
        return array.streams.kernels

    def use(self, array: MacArray, problem: Problem, layout: Layout) -> Use:
        """Return the cycles and the traffic of a problem, by the closed form in `timing`."""
        from npusim.isa.engines.stream.timing import occupancy

        work = occupancy(_shape(array), problem)
        return Use(max(work[:5]), max(work[:3]), work.map_values, work.weight_values, work.updates)

    def split(self, array: MacArray, problem: Problem, layout: Layout) -> tuple[int, ...]:
        """Return the cycles that each cause adds to those before it."""
        from npusim.isa.engines.stream.timing import occupancy

        work = occupancy(_shape(array), problem)
        return in_turn(work[:5])

    def circuits(self, array: MacArray) -> Circuits:
        """Return the circuits: registers for the current and the next kernels, and accumulators for each unit."""
        return Circuits(self.macs_per_cycle(array), 2, array.streams.units)


def _shape(array: MacArray) -> Shape:
    from npusim.isa.engines.stream.timing import Shape

    return Shape(
        **vars(array.streams),
        map_port=array.ifm_bytes_per_cycle,
        weight_port=array.weight_bytes_per_cycle,
        lanes=array.output_lanes,
    )


def _units(array: MacArray) -> str | None:
    streams = array.streams
    if streams.units_per_layer <= streams.units:
        return None
    return f"{streams.units_per_layer} of {streams.units} units, at most all of them"


Stream.rules = (ArrayRule("stream.units_per_layer", ("stream.units",), _units),)

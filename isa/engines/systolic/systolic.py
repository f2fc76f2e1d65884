"""The systolic MAC engine type, with weight-stationary, output-stationary and depthwise dataflows.

A layout is a dataflow and the part (corner) of the array in use (`npusim.isa.engines.systolic.timing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import ceil
from typing import ClassVar

from npusim.isa.base.cause import Cause
from npusim.isa.engines.engine import EDGE, ArrayRule, Circuits, Engine, Layout, Problem, Use
from npusim.isa.engines.mac_array import MacArray
from npusim.isa.engines.systolic import mapping, timing
from npusim.isa.engines.systolic.timing import ArrayShape, Occupancy, Window, array_shape, corner

DATAFLOWS = ("weight_stationary", "output_stationary")

COLUMNS_PER_ACCUMULATOR_BANK = 4
"""Number of columns whose 4-byte accumulators share one SRAM, so that its port is 16 bytes wide."""


class Systolic(Engine):
    """The engine type of R rows (dot product) by C columns (channels); operands move from neighbour to neighbour."""

    kind: ClassVar[str] = "systolic"
    sizes: ClassVar[tuple[str, ...]] = ("mac_array.rows", "mac_array.columns")
    # First, factors from edge-128 to edge-256: ports, accumulators and output lanes grow with the columns.
    larger: ClassVar[tuple[Mapping[str, float], ...]] = (
        {
            "columns": 2,
            "ifm_bytes_per_cycle": 2,
            "weight_bytes_per_cycle": 2,
            "output_lanes": 2,
            "accumulator_kib": 2,
        },
        {"rows": 2},
    )
    causes: ClassVar[tuple[Cause, ...]] = (
        EDGE,
        Cause(
            "fill_drain",
            "fill and drain",
            "#6fc6d0",
            "inside the MAC array: weights load while nothing streams, or results leave the pipeline",
            ("mac_array.shadow_weights", "mac_array.accumulator_kib"),
        ),
        Cause(
            "port",
            "array port",
            "#8ab4de",
            "inside the MAC array: operands take several cycles because their port is narrower than the array",
            ("mac_array.ifm_bytes_per_cycle", "mac_array.weight_bytes_per_cycle"),
        ),
        Cause(
            "output_stage",
            "output stage",
            "#bcd2ec",
            "inside the MAC array: the array waits for the output stage, or the last group passes through it",
            ("mac_array.output_lanes",),
        ),
    )

    def macs_per_cycle(self, array: MacArray) -> int:
        """Return the number of multipliers."""
        return array.rows * array.columns

    def width(self, array: MacArray) -> int:
        """Return the number of columns."""
        return array.columns

    def fastest(self, array: MacArray, problem: Problem) -> Layout:
        """Return the fastest dataflow among those that the array supports, with its fastest corner."""
        shape = array_shape(array)
        if problem.by_channel:
            return Layout(0, *mapping.depthwise(shape, _window(problem), problem.ofm_depth))
        sizes = problem.pixels, problem.inner, problem.ofm_depth
        resting_outputs, part = mapping.convolution(shape, array.dataflow, *sizes)
        return Layout(int(resting_outputs), *part)

    def misfits(self, array: MacArray, layout: Layout, by_channel: bool) -> list[str]:
        """Return messages if the corner is empty, or if the array does not support the dataflow."""
        whole = array_shape(array)
        part = _corner(whole, layout)
        faults = [
            f"{name}_halvings {getattr(layout, f'{name}_halvings')}; the array has {getattr(whole, side)} {what}"
            for name, side, what in (
                ("row", "rows", "rows"),
                ("column", "columns", "columns"),
                ("accumulator", "half_accumulators", "accumulators in half a column"),
            )
            if not getattr(part, side)
        ]
        chosen = DATAFLOWS[layout.output_stationary]
        if not by_channel and array.dataflow not in (chosen, "both"):
            faults.append(f"dataflow {chosen}; the array of the hardware supports {array.dataflow}")
        return faults

    def use(self, array: MacArray, problem: Problem, layout: Layout) -> Use:
        """Return the cycles and the traffic of a problem, by the closed forms in `timing`, on the layout's corner."""
        return _use(array_shape(array), problem, layout)

    def split(self, array: MacArray, problem: Problem, layout: Layout) -> tuple[int, ...]:
        """Return the cycles that each cause adds to those before it."""
        shape, multipliers = _corner(array_shape(array), layout), self.macs_per_cycle(array)
        sizes = problem.pixels, problem.inner, problem.ofm_depth
        if problem.by_channel:
            parts = timing.depthwise_split(shape, _window(problem), problem.ofm_depth, multipliers)
        elif layout.output_stationary:
            parts = timing.output_stationary_split(shape, *sizes, multipliers)
        else:
            parts = timing.weight_stationary_split(shape, *sizes, multipliers)
        return parts[1:]

    def circuits(self, array: MacArray) -> Circuits:
        """Return the circuits: accumulators are a double buffer whose SRAMs each serve a few columns."""
        banks = 2 * ceil(array.columns / COLUMNS_PER_ACCUMULATOR_BANK)
        return Circuits(self.macs_per_cycle(array), 1 + array.shadow_weights, banks)


def _corner(shape: ArrayShape, layout: Layout) -> ArrayShape:
    return corner(shape, layout.row_halvings, layout.column_halvings, layout.accumulator_halvings)


def _window(problem: Problem) -> Window:
    return Window(
        problem.ofm_height,
        problem.ofm_width,
        problem.kernel_height,
        problem.kernel_width,
        problem.stride_width,
        problem.dilation_width,
    )


@lru_cache(maxsize=4096)
def _use(whole: ArrayShape, problem: Problem, layout: Layout) -> Use:
    shape = _corner(whole, layout)
    work = _occupancy(shape, problem, layout)
    updates = problem.pixels * problem.ofm_depth
    if not layout.output_stationary:
        updates *= -(-problem.inner // shape.rows)
    return Use(work.total, work.array, work.fetched, problem.weights * work.pixel_blocks, updates)


def _occupancy(shape: ArrayShape, problem: Problem, layout: Layout) -> Occupancy:
    if problem.by_channel:
        return timing.depthwise(shape, _window(problem), problem.ofm_depth)
    form = timing.output_stationary if layout.output_stationary else timing.weight_stationary
    return form(shape, problem.pixels, problem.inner, problem.ofm_depth)


def _accumulators(array: MacArray) -> str | None:
    if array_shape(array).half_accumulators >= 1:
        return None
    least_kib = -(-array.columns * 2 * 4 // 1024)
    return f"{array.accumulator_kib} cannot hold two rows of {array.columns} 4-byte accumulators, at least {least_kib}"


Systolic.rules = (ArrayRule("accumulator_kib", ("columns",), _accumulators),)

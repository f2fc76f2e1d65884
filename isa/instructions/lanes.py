"""The base classes of vector instructions: number formats, and cycles, energy and demand derived from their work.

Lanes compute results in parallel. An instruction states its work once, in `work`: the actions of one result, the number
of results, and how often the lanes are filled. A result occupies its lane for the cycles of its actions
(`npusim.isa.instructions.actions`). Cycles, action counts and demand all follow from `work`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.cause import Cause
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.hardware import Hardware, Vector
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.actions import LANE_CYCLES
from npusim.isa.instructions.instruction import Context, Cost, Instruction
from npusim.isa.instructions.memory import Memory
from npusim.isa.instructions.region import Region, Space, dense
from npusim.isa.instructions.word import CODES, FIRST, bits

Values = NDArray[Any]

VECTOR_CAUSES = (
    Cause(
        "vector_overhead",
        "vector overhead",
        "#5bb89f",
        "inside the vector unit: start-up, idle lanes, loading of tables, writing of index bytes",
        ("vector.startup_cycles",),
    ),
)


class Format(NamedTuple):
    """A number format of operands and results.

    size_bytes: bytes of an element in the scratchpad.
    lanes:      the hardware key in `vector` with the number of lanes for this format.
    arithmetic: "fixed_point", "as_float32" (float32 between dequantization and quantization), "float", or "whole"
                (integers without scale, which wrap).
    """

    name: str
    size_bytes: int
    lanes: str
    arithmetic: str


FORMATS = (
    Format("8_bit", 1, "lanes", "fixed_point"),
    Format("int16", 2, "lanes", "fixed_point"),
    Format("as_float32", 1, "lanes", "as_float32"),
    Format("float16", 2, "float16_lanes", "float"),
    Format("float32", 4, "float32_lanes", "float"),
    Format("int32", 4, "float32_lanes", "whole"),
    Format("int64", 8, "float32_lanes", "whole"),
)
"""The values of the field `format`. "as_float32" is 8-bit data that is dequantized, computed in float32, and
quantized again, as ONNX does. int32 uses the lanes of float32, whose adders, multipliers and comparators are assumed to
take integers of 32 bits in the same cycles and for the same energy. int64 takes two such steps, and a product three."""
FORMAT_NAMES = tuple(row.name for row in FORMATS)
FLOAT_TYPES = tuple(row.name for row in FORMATS if row.arithmetic == "float")
_OF_DTYPE = {"int8": 0, "uint8": 0, "int16": 1, "float16": 3, "float32": 4, "int32": 5, "int64": 6}


def format_of(dtype: str) -> int:
    """Return the value of the field `format` for elements of a numpy type that are computed in that type."""
    return _OF_DTYPE[dtype]


def format_field() -> Any:
    """Declare the field for the number format, the first field of an instruction."""
    doc = "format of operands and results: 8_bit is int8 or uint8, as_float32 the same computed in float32"
    return bits(3, doc, choices=FORMAT_NAMES, place=FIRST)


def bound(which: str) -> Any:
    """Declare the field of the "smallest" or the "largest" integer result, to which results are clamped."""
    return bits(16, f"{which} integer result", signed=True)


EFFORT_ACTIONS = {"simple": "add", "multiply": "multiply", "divide": "divide", "function": "function"}
"""The action of a float function, without its type, by the cost class (`effort`) in `npusim.isa.arithmetic.real`."""


class Way(NamedTuple):
    """The implementation of a function in one arithmetic, and the actions that lanes take for it.

    compute: the numpy implementation; its arguments depend on the instruction.
    each:    the action per input element.
    last:    the actions per result, after those of its elements.

    Actions on floats are written without their type: "float_add" stands for `vector_float16_add` and
    `vector_float32_add`.
    """

    compute: Callable[..., Any]
    each: str
    last: tuple[str, ...] = ()

    def steps(self, elements: int) -> dict[str, int]:
        """Return the actions of a result that is computed from a number of elements, with their counts."""
        counted = {self.each: elements}
        for action in self.last:
            counted[action] = counted.get(action, 0) + 1
        return counted


class Work(NamedTuple):
    """A number of results of one kind that lanes compute in parallel.

    steps:   the actions of one result, with their counts.
    results: number of results.
    groups:  number of times that the lanes are filled.
    cycles:  cycles for which a result occupies its lane.
    leaving: additional cycles of a group until its results are written.
    """

    steps: Mapping[str, int]
    results: int
    groups: int
    cycles: int
    leaving: int = 0


def code_type(signed: int) -> Any:
    """Return the numpy type of 8-bit values for an index of `SIGNS`."""
    return np.int8 if signed else np.uint8


def clamp_fault(signed: int, low: int, high: int) -> list[str]:
    """Return a message if the clamp of 8-bit results is empty or exceeds their type; else nothing."""
    code_low, code_high = CODES[signed]
    if code_low <= low <= high <= code_high:
        return []
    return [f"clamp {low}..{high} is not within {code_low}..{code_high}"]


def passes(elements: int, v: Vector) -> int:
    """Return the cycles for one pass of a one-cycle function over `elements`."""
    return -(-elements // v.lanes)


def float_lanes(hardware: Hardware, dtype: str) -> int:
    """Return the number of vector lanes for float16 or float32; 0 if there are none."""
    lanes: int = getattr(hardware.vector, f"{dtype}_lanes")
    return lanes


def float32_of(word: int) -> np.float32:
    """Return the float32 number with the given bits."""
    return np.float32(np.array([word], np.uint32).view(np.float32)[0])


def bits_of(number: float) -> int:
    """Return the bits of a number as float32, for a 32-bit field."""
    return int(np.array([number], np.float32).view(np.uint32)[0])


@np.errstate(all="ignore")
def stored(values: Values, dtype: Any) -> Values:
    """Convert results to the type in memory. Numbers beyond the range of a float type become infinite."""
    return values.astype(dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorInstruction(Instruction):
    """The base of vector instructions: `cost` and `demand` follow from `work`, `traffic` and `table_bytes`."""

    home: ClassVar[Unit] = Unit.VECTOR
    causes: ClassVar[tuple[Cause, ...]] = VECTOR_CAUSES

    @property
    def number_format(self) -> Format:
        """The number format of the operands; 8-bit by default."""
        return FORMATS[0]

    @property
    def table_bytes(self) -> int:
        """Bytes of the table that the lanes load before they start."""
        return 0

    def work(self, context: Context) -> tuple[Work, ...]:
        """Return the work of the lanes, one entry per kind of result."""
        raise NotImplementedError

    def traffic(self) -> tuple[int, int]:
        """Return the bytes that lanes read from the scratchpad, without tables, and the bytes that they write."""
        raise NotImplementedError

    def part(
        self, context: Context, steps: Mapping[str, int], results: int, groups: int | None = None
    ) -> Work:
        """Return the work of a number of results that take the given actions.

        groups: number of times that the lanes are filled; by default any results may fill them together.
        """
        v, of = context.hardware.vector, self.number_format
        if of.lanes != "lanes":
            kind = of.lanes.removesuffix("_lanes")
            steps = {name.replace("float", f"vector_{kind}", 1): times for name, times in steps.items()}
        cycles = sum([getattr(v, LANE_CYCLES[name]) * times for name, times in steps.items()])
        if groups is None:
            groups = self.groups(context, results)
        return Work(steps, results, groups, cycles * (v.int16_passes if of.name == "int16" else 1))

    def lanes(self, context: Context) -> int:
        """Return the number of hardware lanes for the instruction's number format."""
        lanes: int = getattr(context.hardware.vector, self.number_format.lanes)
        return lanes or 1

    def groups(self, context: Context, results: int) -> int:
        """Return the number of times that the lanes are filled with adjacent results."""
        return -(-results // self.lanes(context))

    def cost(self, context: Context) -> Cost:
        """Start-up, loading of tables at `lanes` bytes per cycle, then the cycles of a result per fill of the lanes."""
        v = context.hardware.vector
        cycles = v.startup_cycles + passes(self.table_bytes, v)
        actions: dict[str, int] = {}
        for part in self.work(context):
            cycles += part.groups * (part.cycles + part.leaving)
            for name, times in part.steps.items():
                actions[name] = actions.get(name, 0) + times * part.results
        read, written = self.traffic()
        actions["scratchpad_read_byte"] = read + self.table_bytes
        actions["scratchpad_write_byte"] = written
        return Cost(cycles, actions)

    def demand(self, context: Context) -> int:
        """Return the lane cycles of all results, scaled to the number of integer lanes."""
        cycles = sum([part.results * part.cycles for part in self.work(context)])
        return cycles * context.hardware.vector.lanes // self.lanes(context)

    def misfits(self, context: Context) -> list[str]:
        """The vector unit must support the format: `vector.int16_passes` for int16, `float32_rescale` for as_float32,
        and lanes of the type for floats.
        """
        of, hardware = self.number_format, context.hardware
        if of.name == "int16" and not hardware.vector.int16_passes:
            return ["computes on int16, the machine has vector.int16_passes = 0"]
        if of.name == "as_float32" and not hardware.float32_rescale:
            return ["computes on 8-bit values in float32, the machine has float32_rescale = false"]
        if not getattr(hardware.vector, of.lanes):
            return [f"computes {of.name}, the machine has vector.{of.lanes} = 0"]
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Formatted(VectorInstruction):
    """The base of vector instructions that support several number formats."""

    names: ClassVar[tuple[str, ...]] = ()
    """The functions, in the order of the field `function`."""
    ways: ClassVar[Mapping[tuple[str, str], Any]] = {}
    """The implementation of each function in each arithmetic that supports it, by (function, arithmetic)."""

    format: int = format_field()
    if TYPE_CHECKING:  # fields of every subclass that needs them, at their places in its word
        function: int = 0
        signed: int = 0
        input_signed: int = 0

    @property
    def number_format(self) -> Format:
        """The number format of operands and results."""
        return FORMATS[self.format]

    @property
    def way(self) -> Any:
        """The implementation of the function in the number format."""
        return self.ways[self.names[self.function], self.number_format.arithmetic]

    def function_faults(self) -> list[str]:
        """Return a message if the number format does not support the function; else nothing."""
        of = self.number_format
        known = [name for name, arithmetic in self.ways if arithmetic == of.arithmetic]
        if not known:
            supported = {arithmetic for _, arithmetic in self.ways}
            formats = [row.name for row in FORMATS if row.arithmetic in supported]
            return [f"format is {of.name}; it may be {', '.join(formats)}"]
        name = self.names[self.function]
        return [] if name in known else [f"function is {name} of {of.name}; it may be {', '.join(known)}"]

    def range_faults(self, low: int, high: int) -> list[str]:
        """Return a message if the clamp of integer results is invalid; else, and for floats, nothing."""
        of = self.number_format
        if of.size_bytes == 1:
            return clamp_fault(self.signed, low, high)
        if of.name == "int16" and low > high:
            return [f"low {low} is above high {high}"]
        return []

    @property
    def dtype(self) -> Any:
        """The numpy type of results."""
        of = self.number_format
        return code_type(self.signed) if of.size_bytes == 1 else np.dtype(of.name).newbyteorder("<")

    @property
    def input_dtype(self) -> Any:
        """The numpy type of the input. In as_float32 it is selected apart from the type of the results."""
        return code_type(self.input_signed) if self.number_format.name == "as_float32" else self.dtype

    def region(self, address: int, elements: int) -> Region:
        """Return the region of a number of contiguous elements."""
        return dense(Space.SCRATCHPAD, address, elements * self.number_format.size_bytes)

    def elements_at(
        self,
        memory: Memory,
        address: int,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        dtype: Any = None,
    ) -> Values:
        """Return a view of elements in the scratchpad.

        strides: in bytes; None for dense elements.
        dtype:   None for the type of the results.
        """
        dtype = np.dtype(dtype or self.dtype)
        if strides is None:
            strides = [dtype.itemsize * int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
        return memory.view(Space.SCRATCHPAD, address, shape, strides, dtype)

    def floats(
        self, memory: Memory, address: int, shape: Sequence[int], strides: Sequence[int] | None = None
    ) -> NDArray[np.float32]:
        """Return floating-point elements in the scratchpad, converted to float32."""
        with np.errstate(invalid="ignore"):  # converting a signalling NaN would warn
            return self.elements_at(memory, address, shape, strides).astype(np.float32)
